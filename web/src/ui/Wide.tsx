// SPDX-License-Identifier: Apache-2.0
// A picture that may be wider than its page. Then it is a region that scrolls, by keys too, with a line above it and a shade where more follows:
// the scroll bar of a high one is below the screen.
import { useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { sidesWithMore, type Sides } from "../lib/sides";

interface Props {
  /** Names the region, and begins the line above it. */
  name: string;
  /** The picture for so many pixels; what needs more scrolls. */
  children: (room: number) => ReactNode;
}

/** The part of what is seen that a press of the button moves it. */
const PRESS = 0.8;

export function Wide({ name, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(Infinity);
  const [more, setMore] = useState<Sides>("none");
  useLayoutEffect(() => {
    const of = box.current;
    if (!of) return undefined;
    const measure = () => {
      setRoom(of.clientWidth);
      setMore(sidesWithMore(of));
    };
    // First for the room that there is: whether that is enough is seen of the picture that is made for it.
    setRoom(of.clientWidth);
    const sizes = new ResizeObserver(measure);
    sizes.observe(of);
    for (const child of of.children) sizes.observe(child);
    of.addEventListener("scroll", measure, { passive: true });
    return () => {
      sizes.disconnect();
      of.removeEventListener("scroll", measure);
    };
  }, []);
  const isWider = more !== "none";
  const isAtEnd = more === "left";
  const press = () => box.current?.scrollTo({ left: isAtEnd ? 0 : box.current.scrollLeft + PRESS * box.current.clientWidth });
  return (
    <>
      {isWider && (
        <p className="tools wider">
          <span className="faint">{name} is wider than the page: it scrolls, also by arrow keys.</span>
          <button type="button" onClick={press}>{isAtEnd ? "← Back to the left" : "Scroll to the right →"}</button>
        </p>
      )}
      <div className="wide-box" data-more={more}>
        <div ref={box} className="tree" {...(isWider && { role: "region", "aria-label": `${name}, which scrolls`, tabIndex: 0 })}>
          {children(room)}
        </div>
      </div>
    </>
  );
}
