// SPDX-License-Identifier: Apache-2.0
// Before the first paint, so that the page does not flash in the other theme.
(() => {
  const kept = localStorage.getItem("theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
