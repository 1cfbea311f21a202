// SPDX-License-Identifier: Apache-2.0
// Data that moves along the edges of a tree, the faster the more of it flows. Nothing runs where nothing flows, where the tree is out of view,
// where the tab is hidden, or where the reader wants no motion.

/** Pixels from bead to bead, as in the style sheet. */
const PERIOD = 24;
/** Pixels per second that a bead moves, for each pixel of the line's width. */
const SPEED = 14;
/** How often beads move on, milliseconds: more often is not seen at this speed. */
const EVERY = 50;
/** Edges that move at most: hundreds would keep the browser busy. */
const MOST = 128;

interface Moving {
  width: number;
  offset: number;
}

export class Motion {
  private readonly moving = new Map<SVGElement, Moving>();
  private readonly calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  private readonly view: IntersectionObserver;
  private inView = false;
  private timer: number | undefined;
  private last = 0;

  /** Of the beads within this picture. */
  constructor(picture: Element) {
    this.view = new IntersectionObserver((entries) => {
      this.inView = entries.at(-1)?.isIntersecting ?? false;
      this.follow();
    });
    this.view.observe(picture);
    document.addEventListener("visibilitychange", this.follow);
    this.calm.addEventListener("change", this.follow);
  }

  /** Moves the beads of a line of this width; stops them where it is `null`: nothing flows. */
  set(beads: SVGElement, width: number | null): void {
    const known = this.moving.get(beads);
    const moves = width !== null && (known !== undefined || this.moving.size < MOST);
    beads.classList.toggle("moves", moves && !this.calm.matches);
    if (!moves) this.moving.delete(beads);
    else {
      this.moving.set(beads, { width, offset: known?.offset ?? 0 });
      beads.style.strokeWidth = String(width + 3);
    }
    this.follow();
  }

  end(): void {
    for (const beads of this.moving.keys()) beads.classList.remove("moves");
    this.moving.clear();
    this.view.disconnect();
    document.removeEventListener("visibilitychange", this.follow);
    this.calm.removeEventListener("change", this.follow);
    window.clearTimeout(this.timer);
  }

  /** Starts or stops, as things are now. */
  private readonly follow = (): void => {
    const runs = this.moving.size > 0 && this.inView && document.visibilityState === "visible" && !this.calm.matches;
    if (!runs) {
      window.clearTimeout(this.timer);
      this.timer = undefined;
    } else if (this.timer === undefined) {
      this.last = performance.now();
      this.timer = window.setTimeout(this.step, EVERY);
    }
  };

  private readonly step = (): void => {
    const now = performance.now();
    const seconds = Math.min(0.2, (now - this.last) / 1000);
    this.last = now;
    for (const [beads, moving] of this.moving) {
      moving.offset = (moving.offset + seconds * SPEED * moving.width) % PERIOD;
      beads.style.strokeDashoffset = String(-moving.offset);
    }
    this.timer = window.setTimeout(this.step, EVERY);
  };
}
