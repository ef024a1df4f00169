// One step of lesson 5 on rank 0, without and with overlap, as the program traces it (--trace). RUN
// has the phases of both: [name, begin, end], in milliseconds.
document.addEventListener("DOMContentLoaded", () => {
  const { figure, show } = addPlayer(paragraphOf("overlap.svg"), "Moment");
  figure.insertAdjacentHTML("afterbegin", `<p><label>A step <select><option>without</option>
    <option>with</option></select> overlap</label></p>`);
  const choice = figure.querySelector("select"), longest = RUN.without.at(-1)[2];
  const bar = (top, name, [begin, end], now, words = "") => begin >= now ? "" :
    `<rect class="${name}" x="${100 + 700 * begin / longest}" y="${top}" height="36" ` +
    `width="${700 * (Math.min(now, end) - begin) / longest}"/>` +
    svgText(112 + 700 * begin / longest, top + 22, words);

  const load = () => {
    const overlap = choice.value === "with", phases = RUN[choice.value];
    const span = (name) => phases.find((phase) => phase[0] === name).slice(1);
    const buckets = phases.filter(([name]) => name.startsWith("bucket"));
    const [start, done] = span("backward"), [, averaged] = span("wait for all-reduces");
    const end = span("step")[1];
    // Without overlap, backward stands still while a bucket travels.
    const edges = [start, ...(overlap ? [] : buckets.flatMap(([, ...times]) => times)), done];
    const computed = [[0, start], [averaged, end]];  // the loss is between forward and backward
    for (let i = 0; i < edges.length; i += 2) computed.push(edges.slice(i, i + 2));
    const moments = [[0, "forward begins"], [start, "backward begins"],
      ...buckets.flatMap(([name, begin, end]) => [[begin, `${name} is full and leaves`],
                                                  [end, `${name} is averaged`]]),
      [done, "backward has ended"], [averaged, "all buckets are there, and the optimizer begins"],
      [end, "the step ends"]].sort(([a], [b]) => a - b);
    show(moments.length - 1, (moment) => {
      const [now, what] = moments[moment];
      const during = ([begin, end]) => begin <= now && now < end;
      const away = buckets.find(([, ...times]) => during(times));
      const idle = now - computed.reduce(
        (sum, [begin, end]) => sum + Math.max(0, Math.min(now, end) - begin), 0);
      return [`${now.toFixed(1)} ms: ${what}. ` + (away ? `While ${away[0]} is on its way, ` +
        `${computed.some(during) ? "backward goes on" : "nothing is computed"}. ` : "") +
        `So far, ${idle.toFixed(0)} ms were spent waiting.`,
        svg(8, 124, "What has been computed and sent", [
          svgText(46, 52, "computed"), ...computed.map((times) => bar(30, "whole", times, now)),
          svgText(46, 96, "sent"), ...buckets.map(
            ([name, ...times]) => bar(74, "part", times, now, name.split(" ")[1]))])];
    });
  };
  choice.addEventListener("change", load);
  load();
});
