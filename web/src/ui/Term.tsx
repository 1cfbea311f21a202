// SPDX-License-Identifier: Apache-2.0
// A word of the glossary: what it means appears below it on hover, on keyboard focus and on a tap. The texts are loaded with the first page that
// has such a word, and are no part of the first view.
import { lazy, Suspense, useEffect, useId, useRef, useState, type MouseEvent, type FocusEvent, type PointerEvent, type ReactNode } from "react";
import type { Word } from "./glossary";
import { whenIdle } from "./idle";

const load = () => import("./Tip").then((module) => ({ default: module.Tip }));
const Tip = lazy(load);

/** How long the pointer rests on a word before its meaning appears, and how long it may be beside both. */
const REST = 150;

interface Handlers {
  onPointerEnter: (event: PointerEvent<HTMLElement>) => void;
  onPointerLeave: (event: PointerEvent<HTMLElement>) => void;
  onFocus: (event: FocusEvent<HTMLElement>) => void;
  onBlur: () => void;
  onClick: (event: MouseEvent<HTMLElement>) => void;
}

/** What a button needs to explain a word, and the explanation, which is elsewhere in the document: it is no part of the button's name. */
export function useTerm(of: Word | undefined): [Partial<Handlers>, ReactNode] {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const timer = useRef(0);
  const id = useId();
  useEffect(() => {
    // Before it is needed: a screen reader reads the description when the word gets the focus.
    if (of) whenIdle(() => void load().catch(() => undefined));
    return () => window.clearTimeout(timer.current);
  }, [of]);
  if (!of) return [{}, null];
  const soon = (to: HTMLElement | null) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setAnchor(to), REST);
  };
  const now = (to: HTMLElement | null) => {
    window.clearTimeout(timer.current);
    setAnchor(to);
  };
  const isMouse = (event: PointerEvent<HTMLElement>) => event.pointerType === "mouse";
  const handlers: Handlers = {
    onPointerEnter: (event) => isMouse(event) && soon(event.currentTarget),
    onPointerLeave: (event) => isMouse(event) && soon(null),
    onFocus: (event) => now(event.currentTarget),
    onBlur: () => now(null),
    // Not every browser of a phone gives the focus to a button that is tapped.
    onClick: (event) => now(event.currentTarget),
  };
  const shown = anchor && (
    <Suspense fallback={null}>
      <Tip of={of} id={id} anchor={anchor} onEnter={() => soon(anchor)} onLeave={() => soon(null)} onClose={() => now(null)} />
    </Suspense>
  );
  return [handlers, shown];
}

/** A word where a page shows it first: a heading, a label, the title of a chart. `children`: the text, where it is another form of the word. */
export function Term({ of, children }: { of: Word; children?: ReactNode }) {
  const [handlers, tip] = useTerm(of);
  return (
    <>
      <button type="button" className="term" {...handlers}>
        {children ?? of}
      </button>
      {tip}
    </>
  );
}
