/* core_node.ts: the core for programs outside a page, the tests, and what the page paints without a canvas. */
export * from "./index";
export { setAssets, loadAssets } from "./assets";
export { ModelEngine } from "./model_engine";
export { serve } from "./worker";
export { angleMap, takeColours } from "../angle_colours";
