// SPDX-License-Identifier: Apache-2.0
import { Link } from "@tanstack/react-router";
import type { ObjectRef } from "../api/types";
import { object } from "../lib/problem";

/** An object that a problem is about, with a link to its page if it has one. */
export function ObjectLink({ of, className, text }: { of: ObjectRef; className?: string; text?: string }) {
  const shown = text ?? object(of);
  const extra = className ? { className } : {};
  switch (of.kind) {
    case "group":
      return <Link to="/groups/$group" params={{ group: of.name }} {...extra}>{shown}</Link>;
    case "member":
      return <Link to="/groups/$group" params={{ group: of.name.split("/")[0] ?? of.name }} {...extra}>{shown}</Link>;
    case "node":
      return <Link to="/nodes/$node" params={{ node: of.name }} {...extra}>{shown}</Link>;
    case "link":
    case "port": {
      const [node = "", port = ""] = (of.name.split("--")[0] ?? "").split("/");
      return <Link to="/links/$node/$port" params={{ node, port }} {...extra}>{shown}</Link>;
    }
    default:
      return <>{shown}</>;
  }
}
