// Accessibility fixes for the theme, checked with axe-core.

// The theme names each list of pages after a hidden label, which leaves it without a name.
function nameNavigation() {
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]")) {
    const label = document.getElementById(nav.getAttribute("aria-labelledby"));
    nav.removeAttribute("aria-labelledby");
    nav.setAttribute("aria-label", `Pages: ${label?.textContent.trim() || "this section"}`);
  }
}

// Two lists are called "Navigation", and the buttons of each code block are one more without a name.
function nameLandmarks() {
  document.querySelector("nav.md-nav--primary")?.setAttribute("aria-label", "All pages");
  document.querySelectorAll("nav.md-code__nav").forEach((nav, index) => {
    nav.setAttribute("aria-label", `Code block ${index + 1}`);
  });
}

// A table without a title in a corner has an empty header cell.
function removeEmptyHeaders() {
  for (const head of document.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));
}

// What scrolls sideways must be reachable with the keyboard.
function makeFocusable(element) {
  if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  else element.removeAttribute("tabindex");
}

const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => makeFocusable(target)));

// The theme wraps tables and adds buttons after the page has loaded.
function watchScrolling() {
  for (const element of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    sizes.observe(element);
  }
}

function improve() {
  nameLandmarks();
  watchScrolling();
}

nameNavigation();
removeEmptyHeaders();
improve();
new MutationObserver(improve).observe(document.body, { childList: true, subtree: true });
