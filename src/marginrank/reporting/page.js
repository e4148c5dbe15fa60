// Charts, sortable tables and buttons that copy. Tables are complete without any of it.

const config = JSON.parse(document.getElementById("chart-config").textContent);
const options = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
  config,
};

async function draw(plot) {
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "yes";
  await window.vegaEmbed(plot, JSON.parse(plot.nextElementSibling.textContent), options);
}

// A chart in a closed box has no width yet; it is drawn when the box opens.
async function drawAll(root) {
  for (const plot of root.querySelectorAll(".plot")) {
    if (plot.closest("details:not([open])")) continue;
    // One chart that cannot be drawn is no reason to leave out the others.
    await draw(plot).catch((error) => console.error(error));
    await new Promise((resume) => setTimeout(resume));
  }
}

function keyOf(row, column) {
  const cell = row.cells[column];
  return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
}

// What is absent comes last, whichever way the others go.
function compare(one, other, direction) {
  const numbers = (typeof one === "number") + (typeof other === "number");
  if (numbers === 1) return typeof one === "number" ? -1 : 1;
  const order = numbers === 2 ? one - other : one.localeCompare(other, undefined, { numeric: true });
  return direction * order;
}

function sort(head) {
  const body = head.closest("table").tBodies[0];
  const first = head.classList.contains("number") ? "descending" : "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  const next = head.getAttribute("aria-sort") === first ? second : first;
  for (const other of head.parentElement.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", next);
  const direction = next === "ascending" ? 1 : -1;
  const column = head.cellIndex;
  const rows = Array.from(body.rows, (row) => [keyOf(row, column), row]);
  rows.sort((one, other) => compare(one[0], other[0], direction));
  body.append(...rows.map(([, row]) => row));
}

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    select(code);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.classList.contains("copy")) copy(button);
  else if (button.parentElement.hasAttribute("aria-sort")) sort(button.parentElement);
});
for (const box of document.querySelectorAll("details")) {
  box.addEventListener("toggle", () => box.open && drawAll(box));
}
drawAll(document);
