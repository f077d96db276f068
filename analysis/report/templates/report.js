const tip = document.getElementById("tip");
const marks = document.querySelectorAll("svg.figure [role='graphics-symbol'][aria-label]");
function show(mark, x, y) {
  tip.textContent = mark.getAttribute("aria-label");
  tip.style.visibility = "visible";
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = Math.max(4, y - box.height - 12) + "px";
}
function hide() { tip.style.visibility = "hidden"; }
for (const mark of marks) {
  mark.addEventListener("pointermove", event => show(mark, event.clientX, event.clientY));
  mark.addEventListener("pointerleave", hide);
  mark.addEventListener("focus", () => {
    const box = mark.getBoundingClientRect();
    show(mark, box.right, box.top);
  });
  mark.addEventListener("blur", hide);
}
// One tab stop per figure; arrow keys walk its points.
for (const figure of document.querySelectorAll("svg.figure")) {
  const own = [...figure.querySelectorAll("[role='graphics-symbol'][aria-label]")];
  own.forEach((mark, index) => {
    mark.setAttribute("tabindex", index ? -1 : 0);
    mark.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      const next = own[(index + step + own.length) % own.length];
      mark.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
  });
}
// Models × metrics: sorted by any column, filtered by the names of models and metrics.
const values = document.querySelector("table.values");
if (values) {
  const body = values.tBodies[0], heads = [...values.tHead.rows[0].cells];
  const number = cell => cell.dataset.value === undefined ? NaN : +cell.dataset.value;
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map(row => [row, number(row.cells[column])]);
    rows.sort(([a, x], [b, y]) => {
      if (!column) return (up ? 1 : -1) * a.dataset.name.localeCompare(b.dataset.name);
      // what has no value stands last either way
      return isNaN(x) - isNaN(y) || (isNaN(x) ? 0 : (up ? x - y : y - x));
    });
    body.append(...rows.map(([row]) => row));
  }));
  const words = id => document.getElementById(id).value.toLowerCase().split(/\s+/).filter(Boolean);
  const filter = () => {
    const models = words("filter-models"), metrics = words("filter-metrics");
    const all = document.getElementById("all-variants").checked;
    const hidden = heads.map(head => {
      const name = head.dataset.name;
      if (name === undefined) return false;
      return !(all || !head.classList.contains("more"))
        || (metrics.length > 0 && !metrics.some(word => name.toLowerCase().includes(word)));
    });
    let shown = 0;
    for (const row of values.rows) {
      [...row.cells].forEach((cell, column) => { cell.hidden = hidden[column]; });
      if (!row.dataset.name) continue;
      row.hidden = !models.every(word => row.dataset.name.toLowerCase().includes(word));
      shown += !row.hidden;
    }
    const columns = heads.filter((head, i) => head.dataset.name && !hidden[i]).length;
    document.getElementById("filtered").textContent = shown + " of " + body.rows.length
      + " models, " + columns + " variants";
  };
  const form = document.getElementById("filters");
  form.addEventListener("input", filter);
  form.addEventListener("submit", event => event.preventDefault());
  filter();
}
