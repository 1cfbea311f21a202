// SPDX-License-Identifier: Apache-2.0
// From near: each link in two halves, and the names of its ports.
import { STATES } from "../../lib/mapLayer";
import { BAD, type Picture } from "./Picture";

/** Each link in two halves: the one at an end is what that end sends. */
export function drawHalves(picture: Picture): void {
  const { context, scene, values } = picture;
  picture.underPicked();
  for (let state = 0; state < STATES.length; state += 1) {
    picture.stroke(state, false);
    context.globalAlpha = state > 0 ? 1 : 0.7;
    context.lineWidth = state >= BAD ? 4 : state > 0 ? 2 : 1.5;
    context.strokeStyle = picture.colours[`--${STATES[state] ?? "ok"}`];
    for (let link = 0; link < scene.a.length; link += 1) {
      const [ab, ba] = [values.directions[2 * link] === state, values.directions[2 * link + 1] === state];
      if (state === 0 && !picture.hasEnd(link)) continue;
      const ends = ab || ba ? picture.ends(link) : undefined;
      if (!ends) continue;
      const [ax, ay, bx, by] = ends;
      const [mx, my] = [(ax + bx) / 2, (ay + by) / 2];
      context.beginPath();
      context.moveTo(ab ? ax : mx, ab ? ay : my);
      context.lineTo(ba ? bx : mx, ba ? by : my);
      context.stroke();
    }
  }
  picture.solid();
  // Where the halves meet.
  context.fillStyle = picture.colours["--raised"];
  for (let link = 0; link < scene.a.length; link += 1) {
    if (values.directions[2 * link] === values.directions[2 * link + 1]) continue;
    const ends = picture.ends(link);
    if (!ends) continue;
    context.beginPath();
    context.arc((ends[0] + ends[2]) / 2, (ends[1] + ends[3]) / 2, 3, 0, 2 * Math.PI);
    context.fill();
  }
}

/** The names of ports at the ends of their links. */
export function drawPorts(picture: Picture): void {
  const { context, scene } = picture;
  picture.font(400, 11);
  context.textAlign = "center";
  const out = 26 * Math.min(2, picture.scale);
  for (let link = 0; link < scene.a.length; link += 1) {
    const ends = picture.ends(link);
    if (!ends) continue;
    const [ax, ay, bx, by] = ends;
    const long = Math.hypot(bx - ax, by - ay) || 1;
    port(picture, scene.aPorts[link] ?? "", (part) => [ax + (bx - ax) * part, ay + (by - ay) * part], out / long);
    port(picture, scene.bPorts[link] ?? "", (part) => [bx + (ax - bx) * part, by + (ay - by) * part], out / long);
  }
}

/** The name on its half of the line, as near to its node as there is room; none if there is none. */
function port(picture: Picture, name: string, at: (part: number) => [number, number], nearest: number): void {
  const half = picture.context.measureText(name).width / 2;
  for (const farther of [1, 1.6, 2.2, 3]) {
    const [x, y] = at(Math.min(0.42, nearest * farther));
    if (!picture.room.take(x - half - 2, y - 6, 2 * half + 4, 12)) continue;
    picture.text(name, x, y + 4, "--faint");
    return;
  }
}
