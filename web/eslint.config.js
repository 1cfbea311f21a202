// SPDX-License-Identifier: Apache-2.0
import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "node_modules", "src/api/schema.ts"] },
  js.configs.recommended,
  ...ts.configs.strict,
  a11y.flatConfigs.recommended,
  {
    plugins: { "react-hooks": hooks },
    rules: { "react-hooks/rules-of-hooks": "error", "react-hooks/exhaustive-deps": "error" },
  },
  { files: ["e2e/*.mjs"], languageOptions: { globals: { process: "readonly", console: "readonly" } } },
  { files: ["public/**"], languageOptions: { globals: { document: "readonly", localStorage: "readonly" } } },
);
