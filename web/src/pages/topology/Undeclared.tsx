// SPDX-License-Identifier: Apache-2.0
// What a page has where its objects are part of a topology that is not declared yet: the command, and the form.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import * as queries from "../../api/queries";
import { Empty } from "../../ui/Page";
import { TopologyDialog } from "./TopologyDialog";

export function Undeclared({ children }: { children: string }) {
  const [isOpen, setOpen] = useState(false);
  // One that has nodes is there: the form declares the first.
  const isFirst = useQuery(queries.status).data?.nodes === 0;
  return (
    <>
      <Empty command="canopyctl apply -f topology.yaml">{children}</Empty>
      {isFirst && <button type="button" className="primary" onClick={() => setOpen(true)}>Declare…</button>}
      {isOpen && <TopologyDialog onClose={() => setOpen(false)} />}
    </>
  );
}
