// SPDX-License-Identifier: Apache-2.0
// Signs a tab in, by the address that `canopyctl ui --print` prints.
import type { Page } from "playwright-core";

export async function signIn(page: Page, address: string): Promise<void> {
  await page.goto(address);
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}
