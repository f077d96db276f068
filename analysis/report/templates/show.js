const data = JSON.parse(document.getElementById("data").textContent);
const host = document.getElementById("text"), panel = document.getElementById("panel");
const alpha = document.getElementById("alpha"), beta = document.getElementById("beta");
const keys = document.getElementById("keys");
const legends = {
  logprob: "Stronger colour: more surprised, 0 to 8 nats.",
  gain: "Blue: the far context helped; orange: it hurt; up to 3 nats. Grey text: no gain, for "
    + "instance because the short window reaches the beginning.",
  rank: "Stronger colour: further from the first choice, rank 1 to 1000.",
};
// spans[model][segment] = the pieces of that segment (a line break may cut it in two)
const spans = data.models.map(model => model.start.map(() => []));

function addText(cell, text, parent) {
  for (const [index, part] of text.split("\n").entries()) {
    if (index) {
      const mark = document.createElement("span");
      mark.className = "newline";
      mark.textContent = "↵";
      parent.append(mark);
    }
    parent.append(part);
  }
}

function build() {
  const next = data.models.map(() => 0);
  for (const [first, last] of data.rows) {
    const row = document.createElement("div");
    row.className = "row";
    data.models.forEach((model, m) => {
      const cell = document.createElement("div");
      let at = first;
      for (let i = next[m]; i < model.start.length && model.start[i] < last; i++) {
        const from = Math.max(model.start[i], first), to = Math.min(model.end[i], last);
        if (from > at) addText(cell, data.text.slice(at, from), cell);
        const piece = document.createElement("span");
        piece.className = "t";
        piece.dataset.m = m;
        piece.dataset.i = i;
        addText(cell, data.text.slice(from, to), piece);
        cell.append(piece);
        spans[m][i].push(piece);
        at = Math.max(at, to);
        if (model.end[i] <= last) next[m] = i + 1;
      }
      if (at < last) addText(cell, data.text.slice(at, last), cell);
      row.append(cell);
    });
    host.append(row);
  }
}

function isKey(model, i) {
  return model.gain[i] !== null && model.gain[i] > alpha.value * 1000
    && model.logprob[i] > beta.value * 1000;
}

function strength(model, i, measure) {
  if (measure === "logprob") return -model.logprob[i] / 8000;
  if (measure === "rank") return Math.log10(model.rank[i]) / 3;
  return model.gain[i] === null ? 0 : model.gain[i] / 3000;
}

function shade() {
  const measure = document.querySelector("input[name=measure]:checked").value;
  let count = 0;
  data.models.forEach((model, m) => spans[m].forEach((pieces, i) => {
    const value = strength(model, i, measure);
    const key = isKey(model, i);
    count += key;
    for (const piece of pieces) {
      piece.style.setProperty("--s", Math.min(Math.abs(value), 1).toFixed(2));
      const cool = measure === "gain" && value > 0;
      piece.style.setProperty("--shade", cool ? "var(--positive)" : "var(--negative)");
      piece.classList.toggle("key", key);
      piece.classList.toggle("off", keys.checked && !key);
      piece.classList.toggle("none", measure === "gain" && model.gain[i] === null);
    }
  }));
  document.getElementById("legend").textContent =
    `${legends[measure]} Underlined: ${count} key tokens.`;
}

function describe(m, i) {
  const model = data.models[m], list = document.createElement("dl");
  const nats = value => value === null ? "–" : (value / 1000).toFixed(3);
  const facts = {
    [model.name]: JSON.stringify(data.text.slice(model.start[i], model.end[i])),
    "log-prob": nats(model.logprob[i]),
    probability: Math.exp(model.logprob[i] / 1000).toPrecision(3),
    rank: model.rank[i],
    entropy: nats(model.entropy[i]),
    gain: nats(model.gain[i]),
    position: model.position[i],
  };
  if (model.tokens[i] > 1) facts.tokens = model.tokens[i];
  for (const [name, value] of Object.entries(facts)) {
    const pair = document.createElement("div");
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    const code = document.createElement("code");
    code.textContent = value;
    dd.append(code);
    pair.append(dt, dd);
    list.append(pair);
  }
  return list;
}

let marked = [];
function select(m, i) {
  for (const piece of marked) piece.classList.remove("same");
  marked = [...spans[m][i]];
  panel.replaceChildren(describe(m, i));
  const { start, end } = data.models[m];
  data.models.forEach((other, o) => {
    if (o === m) return;
    // binary search for the first segment that ends after this one's start
    let low = 0, high = other.end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (other.end[middle] <= start[i]) low = middle + 1; else high = middle;
    }
    for (let j = low; j < other.start.length && other.start[j] < end[i]; j++) {
      marked.push(...spans[o][j]);
      panel.append(describe(o, j));
    }
  });
  for (const piece of marked) piece.classList.add("same");
}

let current = null;
function focusOn(m, i) {
  if (current) current.removeAttribute("tabindex");
  current = spans[m][i][0];
  current.tabIndex = 0;
  current.focus();
}

function bringToMiddle() {
  // Rows far from view have guessed heights until they are near it: scroll, then correct.
  current.scrollIntoView({ block: "center" });
  requestAnimationFrame(() => current.scrollIntoView({ block: "center" }));
}

function openAtFirstShaded() {
  // Before the first gain all text is grey: whoever opens the page would think nothing is shown.
  const measure = document.querySelector("input[name=measure]:checked").value;
  if (measure !== "gain") return;
  const first = data.models.map(model => model.gain.findIndex(value => value !== null));
  const starts = first.map((i, m) => i < 0 ? Infinity : data.models[m].start[i]);
  const m = starts.indexOf(Math.min(...starts));
  if (starts[m] === Infinity || !spans[m][first[m]].length) return;
  if (current) current.removeAttribute("tabindex");
  current = spans[m][first[m]][0];
  current.tabIndex = 0;
  if (current.getBoundingClientRect().top > 0.6 * innerHeight) bringToMiddle();
}

function nextKey() {
  // Onwards in the same model, then through the next, round to where it began.
  const at = current ? [+current.dataset.m, +current.dataset.i] : [0, -1];
  const order = data.models.flatMap((model, m) => model.start.map((_, i) => [m, i]));
  const here = order.findIndex(([m, i]) => m === at[0] && i === at[1]);
  for (let step = 1; step <= order.length; step++) {
    const [m, i] = order[(here + step) % order.length];
    if (spans[m][i].length && isKey(data.models[m], i)) {
      focusOn(m, i);
      bringToMiddle();
      return;
    }
  }
  panel.textContent = "No key token with these thresholds.";
}

build();
shade();
spans.forEach((list, m) => { if (list.length && m === 0) { current = list[0][0]; current.tabIndex = 0; } });
openAtFirstShaded();
document.querySelector("form").addEventListener("input", shade);
document.getElementById("next").addEventListener("click", nextKey);
document.querySelector("form").addEventListener("submit", event => event.preventDefault());
for (const name of ["pointerover", "focusin"]) {
  host.addEventListener(name, event => {
    const piece = event.target.closest(".t");
    if (piece) select(+piece.dataset.m, +piece.dataset.i);
  });
}
host.addEventListener("keydown", event => {
  const piece = event.target.closest(".t");
  if (!piece) return;
  const m = +piece.dataset.m, i = +piece.dataset.i, last = spans[m].length - 1;
  const target = {
    ArrowRight: [m, Math.min(i + 1, last)], ArrowLeft: [m, Math.max(i - 1, 0)],
    Home: [m, 0], End: [m, last],
  }[event.key];
  if (target) { event.preventDefault(); focusOn(...target); }
});
