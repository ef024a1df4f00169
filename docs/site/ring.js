// Lesson 3's ring all-reduce. RUN holds the messages of runs on 2 to 8 ranks, as the program prints
// them with --json; a reader's own run can take their place.

// What every rank has after each step, [step][rank][chunk] = {shares, value}, from the rows of all
// messages. Throws an Error with one sentence if they are not the messages of a ring.
function ringStates(rows) {
  const ranks = 1 + Math.max(...rows.map((row) => row.from));
  if (!(ranks >= 2 && ranks <= 8)) throw Error("it has no messages of 2 to 8 ranks");
  const message = (step, from) => {
    const row = rows.find((one) => one.step === step && one.from === from);
    const name = `the message of rank ${from} in step ${step}`;
    if (!row) throw Error(`${name} is missing`);
    if (row.to !== (from + 1) % ranks || !chunks.includes(row.chunk) ||
        !/^[a-h]+$/.test(row.shares) || !Number.isFinite(row.values?.[0])) {
      throw Error(`${name} is damaged`);
    }
    return { ...row, name, value: row.values[0] };
  };
  const chunks = Array.from({ length: ranks }, (_, chunk) => chunk);
  const all = 2 * (ranks - 1) * ranks;  // each is looked at below
  if (rows.length > all) throw Error(`it has ${rows.length} messages instead of ${all}`);
  // In its first N steps, a rank sends each chunk once: what has arrived, plus its own share.
  const memory = chunks.map((rank) => {
    const own = [];
    for (let step = 1; step <= ranks; ++step) {
      const { chunk, value } = message(step, rank);
      const arrived = step === 1 ? 0 : message(step - 1, (rank + ranks - 1) % ranks).value;
      own[chunk] = { shares: "abcdefgh"[rank], value: value - arrived };
    }
    return own;
  });
  const states = [memory];
  for (let step = 1; step <= 2 * (ranks - 1); ++step) {
    const before = states.at(-1), after = before.map((chunks) => [...chunks]);
    for (let from = 0; from < ranks; ++from) {
      const { name, to, chunk, shares, value } = message(step, from);
      const has = before[from][chunk], own = before[to][chunk];
      if (!own || has?.shares !== shares || has.value !== value) {
        throw Error(`${name} is not what the rank has`);
      }
      after[to][chunk] = step >= ranks ? has : {
        shares: [...own.shares, ...shares].sort().join(""), value: own.value + value,
      };
    }
    states.push(after);
  }
  return states;
}

// A row for each chunk, and an arrow for each message of this step.
function drawRing(states, rows, step) {
  const ranks = states[0].length, parts = [], top = (chunk) => 28 + 44 * chunk;
  for (let rank = 0; rank < ranks; ++rank) {
    parts.push(svgText(leftOf(rank) + 32, 18, `rank ${rank}: ${"abcdefgh"[rank]}`));
    states[step][rank].forEach(({ shares, value }, chunk) => {
      parts.push(svgBox(rank, top(chunk), shares.length === ranks ? "whole" :
                                          shares.length > 1 ? "part" : ""));
      parts.push(svgText(leftOf(rank) + 32, top(chunk) + 16, value));
      parts.push(svgText(leftOf(rank) + 32, top(chunk) + 31, shares));
    });
    parts.push(svgText(26, top(rank) + 23, `chunk ${rank}`));
  }
  for (const { from, to, chunk } of rows.filter((row) => row.step === step)) {
    parts.push(svgBox(to, top(chunk), "new"));
    // The last rank's message leaves on the right and comes in on the left.
    for (const x of from < to ? [leftOf(to) - 30] : [leftOf(ranks) - 30, leftOf(to) - 30]) {
      parts.push(svgArrow(`M${x} ${top(chunk) + 18}h28`));
    }
  }
  return svg(ranks, top(ranks), "What each rank has of each chunk", parts);
}

document.addEventListener("DOMContentLoaded", () => {
  const { figure, show } = addPlayer(paragraphOf("ring.svg"), "Step");
  figure.insertAdjacentHTML("afterbegin", "<p><label>A run on <select></select></label></p>");
  figure.insertAdjacentHTML("beforeend", `
    <p>Each cell has a chunk's sum so far, and below it whose shares the sum contains. Blue: of some
    ranks; green: of all; orange: just received. The last rank's right neighbour is rank 0. What a
    rank has sent stays, unused, until the complete sum replaces it.</p>
    <p><label>Your own run, recorded with <code>./learn 3 -- --json &gt; ring.jsonl</code>:
    <input type="file"></label></p>`);
  const choice = figure.querySelector("select"), file = figure.querySelector("[type=file]");

  const load = (rows) => {
    const states = ringStates(rows), ranks = states[0].length;
    show(states.length - 1, (step) => {
      const half = step < ranks ? "reduce-scatter: the receiver adds its share"
                                : "all-gather: the receiver keeps a copy";
      return [step === 0 ? "At first, each rank has only its own share of every chunk." :
        `Step ${step} of ${states.length - 1}, ${half}. So far, each rank has sent ` +
        `${step} chunk${step > 1 ? "s" : ""} of S/${ranks}, or ${(step / ranks).toFixed(2)} S.`,
        drawRing(states, rows, step)];
    });
  };
  const read = async (chosen) => {
    if (!chosen) return;  // a dialog was cancelled, or something else was dropped
    try {
      const lines = (await chosen.text()).split("\n").filter((line) => line.trim());
      load(lines.map((line) => JSON.parse(line)).filter((row) => row?.message));
      choice.value = "";
    } catch (problem) {
      const why = problem instanceof SyntaxError ? "one of its lines is not JSON" : problem.message;
      figure.querySelector("output").textContent = `${chosen.name} cannot be shown: ${why}.`;
    }
  };
  for (const ranks of Object.keys(RUN)) choice.add(new Option(`${ranks} ranks`, ranks));
  choice.value = "4";
  choice.addEventListener("change", () => load(RUN[choice.value]));
  file.addEventListener("change", () => read(file.files[0]));
  figure.addEventListener("dragover", (event) => event.preventDefault());
  figure.addEventListener("drop", (event) => {
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
  load(RUN[choice.value]);
});
