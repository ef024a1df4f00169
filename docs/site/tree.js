// Lesson 2's binomial tree, as the program prints its messages with --json.
document.addEventListener("DOMContentLoaded", () => {
  const received = new Map([[0, 0]]);  // the round in which each rank got the tensor
  for (const { round, to } of RUN.messages) received.set(to, round);
  const ranks = received.size, last = Math.max(...received.values());
  addPlayer(paragraphOf("tree.svg"), "Round").show(last, (round) => {
    const sent = RUN.messages.filter((message) => message.round === round);
    const have = [...received].filter(([, since]) => since <= round).map(([rank]) => rank);
    const parts = [];
    for (let rank = 0; rank < ranks; ++rank) {
      parts.push(svgBox(rank, 84, have.includes(rank) ? "whole" : ""));
      parts.push(svgText(leftOf(rank) + 32, 106, `rank ${rank}`));
    }
    for (const { from, to } of sent) {
      const way = leftOf(to) - leftOf(from);
      parts.push(svgBox(to, 84, "new"));
      parts.push(svgArrow(`M${leftOf(from) + 32} 82q${way / 2} ${-20 - way / 3} ${way} 0`));
    }
    return [round === 0 ? "At first, only the root has the tensor." :
      `Round ${round} of ${last}: ${sent.length} message${sent.length > 1 ? "s" : ""} at the ` +
      `same time. Now ${have.length} of ${ranks} ranks have the tensor.`,
      svg(ranks, 130, "Which ranks have the tensor", parts)];
  });
});
