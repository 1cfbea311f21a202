// SPDX-License-Identifier: Apache-2.0
declare module "swagger-ui-dist/swagger-ui-es-bundle" {
  const SwaggerUI: (options: Record<string, unknown>) => unknown;
  export default SwaggerUI;
}
declare module "swagger-ui-dist/swagger-ui.css";
