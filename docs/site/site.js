// Quizzes that answer what a reader chooses. Without this script, the answers unfold.
document.addEventListener("DOMContentLoaded", () => {
  for (const answer of document.querySelectorAll("details")) {
    const list = answer.previousElementSibling;
    if (list?.tagName !== "UL" || !list.textContent.trim().startsWith("a) ")) continue;
    const right = answer.querySelector("strong").textContent[0];
    const key = `${document.title}: ${list.previousElementSibling.textContent}`;
    const why = new Map([[right, answer.querySelector("p").innerHTML]]);
    for (const reason of answer.querySelectorAll("li > p")) {
      for (const [, letter] of reason.textContent.matchAll(/(?:^|, )([abc])\)/g)) {
        why.set(letter, reason.innerHTML.replace(/^([abc]\)(, )?)+ /, ""));
      }
    }
    const says = document.createElement("div");
    says.className = "quiz-says";
    says.setAttribute("role", "status");
    list.after(says);

    const buttons = [...list.children].map((option) => {
      const button = document.createElement("button");
      button.append(...option.firstElementChild.childNodes);
      option.replaceChildren(button);
      return button;
    });
    const choose = (letter) => {
      for (const button of buttons) {
        const chosen = button.textContent[0] === letter;
        button.setAttribute("aria-pressed", chosen);
        button.className = chosen ? (letter === right ? "right" : "wrong") : "";
      }
      says.innerHTML = letter === right ? `Right: ${why.get(letter)}` : `Wrong. ${why.get(letter)}`;
      localStorage.setItem(key, letter);
    };
    for (const button of buttons) {
      button.addEventListener("click", () => choose(button.textContent[0]));
    }
    list.classList.add("quiz");
    if (localStorage.getItem(key)) choose(localStorage.getItem(key));
  }
});

// A button that copies a command.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;  // some browsers have none for a page opened as a file
  for (const block of document.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }
});
