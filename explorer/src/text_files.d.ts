/* text_files.d.ts: files that the bundler takes in as texts. */
declare module "*.h" {
    const text: string;
    export default text;
}
declare module "*.css";
