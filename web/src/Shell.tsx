// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { problems } from "./api/queries";
import { CommitStrip } from "./CommitStrip";
import { useTenants } from "./api/session";
import { count, counted } from "./lib/format";
import type { Action } from "./lib/search";
import { OF_TENANTS, PAGES } from "./pages";
import { TopBar } from "./TopBar";
import { whenIdle } from "./ui/idle";

const loadSearch = () => import("./Search").then((module) => ({ default: module.Search }));
const Search = lazy(loadSearch);
const Acting = lazy(() => import("./Acting").then((module) => ({ default: module.Acting })));

export function Shell() {
  const roots = useQuery(problems).data?.filter((problem) => problem.root && !problem.silence).length ?? 0;
  const tenants = useTenants();
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const rail = useRef<HTMLElement>(null);
  // Keyboard and screen reader begin at the new page's top.
  useEffect(() => {
    main.current?.scrollTo(0, 0);
  }, [path]);
  // On a phone the pages are a row, and the one that is open may be outside of it; the badge moves those behind it.
  const hasBadge = roots > 0;
  useEffect(() => {
    rail.current?.querySelector('[aria-current="page"]')?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [path, hasBadge]);
  const [searching, setSearching] = useState(false);
  const [acting, setActing] = useState<Action | null>(null);
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
        event.preventDefault();
        setSearching(true);
      }
    };
    document.addEventListener("keydown", open);
    // Not part of the first view, and there before the first key. Without the controller it is loaded with that key.
    whenIdle(() => void loadSearch().catch(() => undefined));
    return () => document.removeEventListener("keydown", open);
  }, []);
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages" ref={rail}>
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width="18" height="18" />
          Canopy
        </Link>
        <ul>
          {PAGES.filter(([to]) => tenants === null || OF_TENANTS.includes(to)).map(([to, name]) => (
            <li key={to}>
              <Link to={to} activeOptions={{ exact: to === "/" }}>
                {name}
                {to === "/" && roots > 0 && (
                  <span className="badge" aria-label={counted(roots, "root problem")}>
                    {count(roots)}
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <TopBar onSearch={() => setSearching(true)} />
      {searching && (
        <Suspense fallback={null}>
          <Search onClose={() => setSearching(false)} onAct={setActing} />
        </Suspense>
      )}
      {acting && (
        <Suspense fallback={null}>
          <Acting action={acting} onClose={() => setActing(null)} />
        </Suspense>
      )}
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <CommitStrip />
        <Outlet />
      </main>
    </div>
  );
}
