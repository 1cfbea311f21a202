// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { problems } from "./api/queries";
import { CommitStrip } from "./CommitStrip";
import { TopBar } from "./TopBar";

const PAGES = [
  ["/", "Overview"],
  ["/groups", "Groups"],
  ["/topology", "Topology"],
  ["/links", "Links"],
  ["/congestion", "Congestion"],
  ["/nodes", "Nodes"],
  ["/hosts", "Hosts"],
  ["/drains", "Drains"],
  ["/controller", "Controller"],
  ["/incidents", "Incidents"],
  ["/events", "Events"],
  ["/audit", "Audit"],
] as const;

export function Shell() {
  const roots = useQuery(problems).data?.filter((problem) => problem.root).length ?? 0;
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  // Keyboard and screen reader begin at the new page's top.
  useEffect(() => {
    main.current?.scrollTo(0, 0);
  }, [path]);
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages">
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width="18" height="18" />
          Canopy
        </Link>
        <ul>
          {PAGES.map(([to, name]) => (
            <li key={to}>
              <Link to={to} activeOptions={{ exact: to === "/" }}>
                {name}
                {to === "/" && roots > 0 && (
                  <span className="badge" aria-label={`${roots} root problems`}>
                    {roots}
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <TopBar />
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <CommitStrip />
        <Outlet />
      </main>
    </div>
  );
}
