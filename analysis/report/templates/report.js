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
