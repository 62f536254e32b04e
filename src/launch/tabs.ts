import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ink } from '../figures';

/** One tab: its title, and its content as HTML. */
interface Tab {
  readonly title: string;
  readonly html: string;
}

/**
 * Returns tabs as HTML that needs no network and no other file. Where no script runs, as in a notebook on GitHub, the HTML shows all
 * contents below each other.
 */
export function tabsHtml(tabs: readonly Tab[]): string {
  const sections = tabs.map(
    ({ title, html }) =>
      `<section style="margin-bottom:.4em"><div class="title" style="opacity:.74;font-size:90%">${ink.escapeHtml(title)}</div>${html}</section>`,
  );
  const id = createHash('sha256').update(sections.join('')).digest('hex').slice(0, 16);
  return (
    `<div data-shardlab-tabs="${id}">${sections.join('')}<style>${readShort('tabs.css')}</style>` +
    `<script type="module">${readShort('tabs.mjs')}\nstartTabs("${id}");</script></div>`
  );
}

function readShort(file: string): string {
  return readFileSync(join(__dirname, file), 'utf8')
    .replaceAll(/^ *(\/\/|\/\*\*).*\n/gm, '')
    .replaceAll(/^export (?=function)/gm, '')
    .replaceAll(/^ +/gm, '');
}
