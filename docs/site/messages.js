// A reader's messages in a small run beside ours: ./learn check LESSON EXERCISE --draw writes the
// page, and RUN is the run (tools/exercises/drawing.cpp).

// The messages of one step: a box per rank, below it what the rank sends, and an arrow to its receiver.
// What is `unlike` the other side's is marked.
function drawMessages(messages, unlike, ranks, label) {
  const parts = [], top = 82;
  for (let rank = 0; rank < ranks; ++rank) {
    parts.push(svgBox(rank, top, messages.some(({ to }) => to === rank) ? "part" : ""));
    parts.push(svgText(leftOf(rank) + 32, top + 23, `rank ${rank}`));
  }
  const lines = new Map();  // how many are below this rank
  for (const message of messages) {
    const { from, to, text } = message, line = lines.get(from) ?? 0;
    lines.set(from, line + 1);
    const name = unlike(message) ? "unlike" : "";
    parts.push(`<text class="${name}" x="${leftOf(from) + 32}" y="${top + 54 + 16 * line}">${text}</text>`);
    if (to < 0 || to === from) continue;
    const x = leftOf(from) + 32, way = leftOf(to) - leftOf(from);
    const height = 16 + Math.abs(way) / 8 + (way < 0 ? 20 : 0);  // two that cross are told apart
    parts.push(svgArrow(`M${x} ${top - 3}q${way / 2} ${-height} ${way} 0`, name));
  }
  return `<h3>${label}</h3>` + svg(ranks, top + 62 + 16 * Math.max(0, ...lines.values()), label, parts);
}

document.addEventListener("DOMContentLoaded", () => {
  columnWidth = 176;
  const sends = (whose, row) => RUN[whose].flatMap((rank, from) =>
    rank.sends.filter((one) => one.row === row).map((one) => ({ ...one, from })));
  const last = Math.max(0, ...["yours", "ours"].flatMap((whose) =>
    RUN[whose].flatMap((rank) => rank.sends.map(({ row }) => row))));
  const unit = RUN.rounds ? "Round" : "Step";
  const missing = (from, where) => from.find((one) => !where.some((other) =>
    other.from === one.from && other.to === one.to && other.text === one.text));
  const { show } = addPlayer(document.querySelector("h1"), unit);
  const inWords = ({ from, to, text }) =>
    `rank ${from} sends ${text} to ${to < 0 ? "nobody here" : `rank ${to}`}`;

  show(last, (step) => {
    const row = step + 1;
    if (step === last) {
      const rank = RUN.yours.findIndex((one, index) => one.has !== RUN.ours[index].has);
      const box = (whose) => `<h3>${whose}</h3><ul>` + RUN[whose].map(({ has }, index) =>
        `<li class="${index === rank ? "unlike" : ""}">rank ${index} has ${has}</li>`).join("") + "</ul>";
      return [rank < 0 ? "In the end, all ranks have what they must have."
                       : `In the end, rank ${rank} has something else than ours.`, box("yours") + box("ours")];
    }
    const yours = sends("yours", row), ours = sends("ours", row);
    const more = missing(yours, ours), less = missing(ours, yours);
    const sentence = more && less ? `in yours, ${inWords(more)}; in ours, ${inWords(less)}.`
      : more ? `only in yours, ${inWords(more)}.`
      : less ? `only in ours, ${inWords(less)}.` : "the same messages.";
    return [`${unit} ${row} of ${last}: ${sentence}`,
      drawMessages(yours, (one) => missing([one], ours), RUN.ranks, "yours") +
      drawMessages(ours, (one) => missing([one], yours), RUN.ranks, "ours")];
  });
});
