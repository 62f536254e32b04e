import { readFileSync } from 'node:fs';
import { join } from 'node:path';

let code: string | undefined;

/** Returns the code of all widgets of this folder: an ES module for anywidget, with its style. */
export function widgetCode(): string {
  code ??= read();
  return code;
}

function read(): string {
  const [page, style] = ['page.mjs', 'page.css'].map((file) => readFileSync(join(__dirname, file), 'utf8'));
  const css = JSON.stringify(style?.replaceAll(/\s+/g, ' '));
  const short = page?.replaceAll(/^ *(\/\/|\/\*\*).*\n/gm, '').replaceAll(/^ +/gm, '') ?? '';
  return short.replace("'/* style */'", () => css);
}
