// A figure that a reader steps through, for example below the picture that shows the same without scripts.

function paragraphOf(picture) {
  return document.querySelector(`img[src$='${picture}']`).parentElement;
}
// Puts the figure after `above`. Returns it and show(last, at), which begins again: at(step), for a step from 0 to `last`,
// returns a sentence and an SVG.
function addPlayer(above, unit) {
  const figure = document.createElement("figure");
  figure.className = "player";
  figure.innerHTML = `<p><button>Back</button> <input type="range" min="0" aria-label="${unit}">
    <button>Forward</button></p><output></output><div></div>`;
  const [back, forward] = figure.querySelectorAll("button"), slider = figure.querySelector("input");
  let at;
  const go = (step) => {
    slider.value = step;
    back.disabled = step === 0;
    forward.disabled = step === Number(slider.max);
    const [sentence, svg] = at(step);
    figure.querySelector("output").textContent = sentence;
    figure.querySelector("div").innerHTML = svg;
  };
  back.addEventListener("click", () => go(Number(slider.value) - 1));
  forward.addEventListener("click", () => go(Number(slider.value) + 1));
  slider.addEventListener("input", () => go(Number(slider.value)));
  above.after(figure);
  const show = (last, steps) => {
    slider.max = last;
    at = steps;
    go(0);
  };
  return { figure, show };
}

// The parts of an SVG with a column for each rank.
let columnWidth = 96;
function leftOf(rank) {
  return columnWidth - 12 + columnWidth * rank;
}
function svgText(x, y, words) {
  return `<text x="${x}" y="${y}">${words}</text>`;
}
function svgArrow(way, name = "") {
  return `<path class="arrow ${name}" d="${way}" marker-end="url(#tip)"/>`;
}
function svgBox(rank, top, name) {
  return `<rect class="${name}" x="${leftOf(rank)}" y="${top}" width="64" height="36"/>`;
}
function svg(ranks, height, label, parts) {
  const width = leftOf(ranks);
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}" ` +
         `style="min-width:${0.75 * width}px;max-width:${width}px">` +
         `<marker id="tip" refX="8" refY="4" orient="auto" markerUnits="userSpaceOnUse" ` +
         `markerWidth="8" markerHeight="8"><path d="M0 0l8 4l-8 4z"/></marker>` +
         `${parts.join("")}</svg>`;
}
