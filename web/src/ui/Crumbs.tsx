// SPDX-License-Identifier: Apache-2.0
import { Link } from "@tanstack/react-router";
import { PAGES } from "../pages";

/** The way from the page of one object back to the page of all. */
export function Crumbs({ to }: { to: (typeof PAGES)[number][0] }) {
  return (
    <nav className="crumbs" aria-label="Breadcrumbs">
      <Link to={to}>{PAGES.find(([path]) => path === to)?.[1]}</Link>
    </nav>
  );
}
