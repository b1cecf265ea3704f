/* core_node.ts: the core for programs outside a page: the tests. */
export * from "./index";
export { setAssets, loadAssets } from "./assets";
export { ModelEngine } from "./model_engine";
export { serve } from "./worker";
