// Order of search results: guides, then reference, benchmarks and results of experiments, then API symbols, unless the words look like a symbol.
// Guides come first by how many words of the query are in their name or title. Sphinx reads this: html_search_scorer in conf.py.
const searchedWords = (new URLSearchParams(location.search).get("q") || "").toLowerCase().trim().split(/\s+/);
const searchedSymbol = /[_.]|[a-z][A-Z]/.test(new URLSearchParams(location.search).get("q") || "");
const later = ["benchmarks", "command-line", "gallery", "where-the-time-goes"];
const shareIn = (text) => {
  const parts = text.toLowerCase().split(/[^a-z0-9]+/);
  const isIn = (word) => parts.some((part) => (word.length < 3 ? part === word : part.startsWith(word.slice(0, 6))));
  return searchedWords.filter(isIn).length / searchedWords.length;
};

var Scorer = {
  score: ([page, title, , , score]) => {
    if (page === "api") return searchedSymbol ? score + 60 : score - 100;
    const last = page.startsWith("results/") || later.includes(page);
    return score + 30 * Math.max(shareIn(page), shareIn(title) - 0.1) - (last ? 20 : 0);
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
