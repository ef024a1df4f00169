// Furo's theme "auto" should follow the system, but Debian's Furo has dark colours only for the theme
// "dark". So while "auto" is stored, the page has the theme that the system prefers.
document.addEventListener("DOMContentLoaded", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    const stored = localStorage.getItem("theme") ?? "auto";
    const theme = stored !== "auto" ? stored : dark.matches ? "dark" : "light";
    if (document.body.dataset.theme !== theme) document.body.dataset.theme = theme;
  };
  follow();
  dark.addEventListener("change", follow);
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });
});
