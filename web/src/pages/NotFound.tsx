// SPDX-License-Identifier: Apache-2.0
import { Link } from "@tanstack/react-router";
import { ErrorNote, Page } from "../ui/Page";

export function NotFound() {
  return (
    <Page title="No such page" tab="No such page">
      <p>
        Nothing is at <code>{location.pathname}</code>. <Link to="/">Overview</Link>
      </p>
    </Page>
  );
}

export function Failed({ error }: { error: unknown }) {
  return (
    <Page title="This page failed" tab="Failed">
      <ErrorNote error={error} />
      <button type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </Page>
  );
}
