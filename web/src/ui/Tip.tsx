// SPDX-License-Identifier: Apache-2.0
// The meaning of a word, above everything else on the page: it stays while the pointer is on it, and Escape closes it.
import { useEffect, useLayoutEffect, useRef } from "react";
import { createPortal } from "react-dom";
import { below } from "../lib/tip";
import { GLOSSARY, type Word } from "./glossary";
import { Prose } from "./Prose";

interface Props {
  of: Word;
  id: string;
  /** The word. */
  anchor: HTMLElement;
  onEnter: () => void;
  onLeave: () => void;
  onClose: () => void;
}

export function Tip({ of, id, anchor, onEnter, onLeave, onClose }: Props) {
  const tip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const shown = tip.current;
    if (!shown) return undefined;
    shown.showPopover();
    const place = () => {
      const [left, top] = below(anchor.getBoundingClientRect(), shown.getBoundingClientRect(), { width: document.documentElement.clientWidth, height: document.documentElement.clientHeight });
      shown.style.left = `${left}px`;
      shown.style.top = `${top}px`;
    };
    place();
    anchor.setAttribute("aria-describedby", id);
    window.addEventListener("scroll", place, { capture: true, passive: true });
    window.addEventListener("resize", place);
    return () => {
      window.removeEventListener("scroll", place, { capture: true });
      window.removeEventListener("resize", place);
      anchor.removeAttribute("aria-describedby");
    };
  }, [anchor, id]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") onClose();
    };
    // A tap elsewhere does not take the focus from a button that never had it.
    const onPointer = (event: Event) => {
      if (event.target instanceof Node && !anchor.contains(event.target) && !tip.current?.contains(event.target)) onClose();
    };
    document.addEventListener("keydown", onKey, true);
    document.addEventListener("pointerdown", onPointer, true);
    return () => {
      document.removeEventListener("keydown", onKey, true);
      document.removeEventListener("pointerdown", onPointer, true);
    };
  }, [anchor, onClose]);
  const { name, meaning, ...rest } = GLOSSARY[of];
  // In the main part of the page, and outside of the word: in it, the meaning would become a part of its name.
  return createPortal(
    <div ref={tip} id={id} role="tooltip" popover="manual" className="tip" onPointerEnter={onEnter} onPointerLeave={onLeave}>
      <strong>{name}</strong>: <Prose text={meaning} />.{"from" in rest && <span className="faint"> {rest.from}</span>}
    </div>,
    document.getElementById("main") ?? document.body,
  );
}
