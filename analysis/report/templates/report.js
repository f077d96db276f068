// A click on a heading sorts its table; what has no number comes last either way.
const number = cell => parseFloat((cell.dataset.value ?? cell.textContent).replace("−", "-").replace(/,/g, ""));
for (const head of document.querySelectorAll("thead th")) head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const up = head.ariaSort !== "ascending";
  for (const other of head.parentNode.cells) other.ariaSort = null;
  head.ariaSort = up ? "ascending" : "descending";
  const rows = [...body.rows].map(row => [row, number(row.cells[column]), row.cells[column].textContent]);
  rows.sort(([, x, a], [, y, b]) => isNaN(x) && isNaN(y) ? (up ? 1 : -1) * a.localeCompare(b)
    : isNaN(x) - isNaN(y) || (up ? x - y : y - x));
  body.append(...rows.map(([row]) => row));
});
// The label of a mark is shown where the pointer is.
for (const mark of document.querySelectorAll(".figure [aria-label]")) {
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = mark.getAttribute("aria-label");
  mark.append(title);
}
