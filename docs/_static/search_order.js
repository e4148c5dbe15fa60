// Order of search results: guides, then results of experiments, then API symbols, unless the words look like a symbol.
// A guide comes first if all words of the query are in its name or title. Sphinx reads this: html_search_scorer in conf.py.
const searchedWords = (new URLSearchParams(location.search).get("q") || "").trim().split(/\s+/);
const searchedSymbol = searchedWords.some((word) => /[_.]|[a-z][A-Z]/.test(word));
const searchedIn = (text) => {
  const parts = text.toLowerCase().split(/[^a-z0-9]+/);
  return searchedWords.every((word) => parts.some((part) => part.startsWith(word.toLowerCase().slice(0, 6))));
};

var Scorer = {
  score: ([page, title, , , score]) => {
    if (page === "api") return searchedSymbol ? score + 60 : score - 100;
    if (page.startsWith("results/")) return score - 20;
    return score + (searchedIn(page) ? 30 : searchedIn(title) ? 20 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
