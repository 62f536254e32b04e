import {
  type CellError,
  type DisplaySink,
  LONGEST_TEXT,
  type MimeBundle,
  omission,
  replacingDisplay,
  shortenedBundle,
  shownTraceback,
} from '../cell';
import { rankNames } from '../core';
import { ink } from '../figures';
import type { RankEvent } from './control/messages';
import { tabsHtml } from './tabs';

/** The output of one rank so far. */
interface RankContent {
  /** Consecutive pieces of one stream are one entry. */
  readonly shown: GatheredItem[];
  result: MimeBundle | undefined;
  error: CellError | undefined;
}

/** One output of a rank before its last value. */
export type ShownItem =
  | { readonly kind: 'text'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly kind: 'bundle'; readonly bundle: MimeBundle; readonly displayId: string | undefined };

/** Of a long text, only the first and the last part are stored; `numOmitted` characters between them are left out. */
type GatheredItem =
  | (ShownItem & { readonly kind: 'text'; readonly numOmitted: number })
  | (ShownItem & { readonly kind: 'bundle' });

/** Ranks whose outputs are equal, and their common output. */
export interface OutputSection {
  readonly ranks: readonly number[];
  /** "rank 2", or "ranks 0-3 agree". */
  readonly title: string;
  readonly shown: readonly ShownItem[];
  readonly result: MimeBundle | undefined;
  readonly error: CellError | undefined;
}

/**
 * Gathers the outputs of ranks and folds equal outputs. The outputs of one rank stay in their order; outputs of different
 * ranks have no order.
 */
export class GroupedOutput {
  readonly #contents = new Map<number, RankContent>();

  add(event: RankEvent): void {
    const content = this.#contents.get(event.rank) ?? { shown: [], result: undefined, error: undefined };
    this.#contents.set(event.rank, content);
    switch (event.kind) {
      case 'stream':
        addText(content.shown, event.name, event.text);
        break;
      case 'display':
        content.shown.push({
          kind: 'bundle',
          bundle: shortenedBundle(event.bundle),
          displayId: event.displayId,
        });
        break;
      case 'update':
        replace(content.shown, event.displayId, event.bundle);
        break;
      case 'clear':
        content.shown.length = 0;
        break;
      case 'result':
        content.result = shortenedBundle(event.bundle);
        break;
      case 'error':
        content.error = event.error;
        break;
      default:
        event satisfies never;
    }
  }

  /** Sections, ordered by their first rank; ranks without output have no section. */
  get sections(): OutputSection[] {
    const byOutput = new Map<string, { ranks: number[]; content: RankContent }>();
    for (const [rank, content] of [...this.#contents].sort(([a], [b]) => a - b)) {
      const key = JSON.stringify([
        content.shown,
        content.result,
        content.error && [content.error.ename, content.error.evalue, content.error.line],
      ]);
      const group = byOutput.get(key);
      if (group === undefined) byOutput.set(key, { ranks: [rank], content });
      else group.ranks.push(rank);
    }
    return [...byOutput.values()].map(({ ranks, content }) => ({
      ranks,
      title: ranks.length === 1 ? rankNames(ranks) : `${rankNames(ranks)} agree`,
      ...content,
      shown: content.shown.map(shownItem),
    }));
  }
}

function addText(shown: GatheredItem[], name: 'stdout' | 'stderr', text: string): void {
  const last = shown.at(-1);
  const joins = last?.kind === 'text' && last.name === name;
  const whole = terminalText(joins ? last.text + text : text);
  if (joins) shown.pop();
  const numOver = Math.max(0, whole.length - LONGEST_TEXT);
  const half = LONGEST_TEXT / 2;
  const kept = numOver === 0 ? whole : whole.slice(0, half) + whole.slice(-half);
  shown.push({ kind: 'text', name, text: kept, numOmitted: (joins ? last.numOmitted : 0) + numOver });
}

function shownItem(item: GatheredItem): ShownItem {
  if (item.kind === 'bundle') return item;
  const { kind, name, text, numOmitted } = item;
  if (numOmitted === 0) return { kind, name, text };
  const half = LONGEST_TEXT / 2;
  return { kind, name, text: text.slice(0, half) + omission(numOmitted) + text.slice(half) };
}

/** Returns the text as a terminal shows it: a carriage return overwrites its line. */
function terminalText(text: string): string {
  return text.includes('\r') ? text.replace(/\r\n/g, '\n').replace(/^.*\r(?!$)/gm, '') : text;
}

function replace(shown: GatheredItem[], displayId: string, bundle: MimeBundle): void {
  const at = shown.findIndex((item) => item.kind === 'bundle' && item.displayId === displayId);
  if (at >= 0) shown[at] = { kind: 'bundle', bundle: shortenedBundle(bundle), displayId };
}

/**
 * Returns sections as one bundle of text and HTML: each section's title, prints, last value and error. The bundle only
 * names rich parts (figures, pictures); `richParts` returns them.
 */
export function sectionsBundle(sections: readonly OutputSection[]): MimeBundle {
  return {
    'text/plain': sections
      .flatMap((section) => [section.title, ...itemsOf(section).map(({ text }) => text)])
      .join('\n'),
    'text/html': sections.map(sectionHtml).join(''),
  };
}

/** Returns the figures and pictures of the sections, one bundle each; the caller displays each bundle separately. */
export function richParts(sections: readonly OutputSection[]): MimeBundle[] {
  return sections.flatMap((section) => bundlesOf(section).filter(isRich));
}

/** Returns a section's prints, displays with their pictures, last value and error as one text and one HTML, without its title. */
export function wholeSection(section: OutputSection): SectionPage {
  const items = itemsOf(section, wholeItem);
  return {
    text: items.map(({ text }) => text).join('\n'),
    html: items.map(({ html }) => html).join(''),
  };
}

/** An output as text and as HTML. */
export interface SectionPage {
  readonly text: string;
  readonly html: string;
}

function sectionHtml(section: OutputSection): string {
  const title = `<div style="opacity:.65;font-size:90%">${ink.escapeHtml(section.title)}</div>`;
  const parts = itemsOf(section).map(({ html }) => html);
  return `<div style="margin-bottom:.4em">${title}${parts.join('')}</div>`;
}

/** Returns the prints, displays, last value and error of a section, in order. */
function itemsOf({ shown, result, error }: OutputSection, ofBundle = bundleItem): SectionPage[] {
  const items = shown.map((item) => {
    if (item.kind === 'bundle') return ofBundle(item.bundle);
    const style = item.name === 'stderr' ? 'border-left:3px solid #c44e52;padding-left:.5em' : '';
    return textItem(item.text.replace(/\n$/, ''), style);
  });
  if (result !== undefined) items.push(ofBundle(result));
  if (error !== undefined)
    items.push(textItem(shownTraceback(error, process.env).join('\n'), 'color:#c44e52'));
  return items;
}

function textItem(text: string, style: string): SectionPage {
  return { text, html: pre(text, style) };
}

/** Returns a value as HTML, or as text if it has no HTML. A figure or picture gets a note instead: `richParts` returns it. */
function bundleItem(bundle: MimeBundle): SectionPage {
  const plain = bundle['text/plain'];
  const text = typeof plain === 'string' ? plain : `(${Object.keys(bundle).join(', ')})`;
  if (isRich(bundle)) return { text, html: pre('(shown below)', 'opacity:.65') };
  const html = bundle['text/html'];
  return { text, html: typeof html === 'string' ? html : pre(text, '') };
}

/** Returns a value as HTML with its picture. */
function wholeItem(bundle: MimeBundle): SectionPage {
  const { text, html } = bundleItem(
    Object.fromEntries(Object.entries(bundle).filter(([type]) => isText(type))),
  );
  if (typeof bundle['text/html'] === 'string') return { text, html };
  const [type, picture] = Object.entries(bundle).find(([known]) => known.startsWith('image/')) ?? [];
  if (type === undefined || typeof picture !== 'string') return { text, html };
  const coded = type === 'image/svg+xml' ? Buffer.from(picture).toString('base64') : picture;
  const source = `data:${type};base64,${coded.replaceAll('\n', '')}`;
  return { text, html: `<img style="max-width:100%" alt="${ink.escapeHtml(text)}" src="${source}">` };
}

function isText(type: string): boolean {
  return type.startsWith('text/');
}

function bundlesOf({ shown, result }: OutputSection): MimeBundle[] {
  const displayed = shown.flatMap((item) => (item.kind === 'bundle' ? [item.bundle] : []));
  return result === undefined ? displayed : [...displayed, result];
}

function isRich(bundle: MimeBundle): boolean {
  return Object.keys(bundle).some((type) => type.startsWith('image/') || type.startsWith('application/vnd.'));
}

function pre(text: string, style: string): string {
  // JupyterLab breaks lines of a <pre> within words.
  return `<pre style="margin:0;word-break:normal;overflow-wrap:anywhere;${style}">${ink.escapeHtml(text)}</pre>`;
}

/**
 * Returns a tab for each section, if at least two sections differ and one has a picture; undefined if text says it all, if there is
 * something that HTML cannot hold, or if a browser cannot show so much in one output.
 */
function tabsOfRanks(sections: readonly OutputSection[]): MimeBundle | undefined {
  const rich = richParts(sections);
  if (sections.length < 2 || rich.length === 0 || !rich.every(fitsHtml)) return undefined;
  const pages = sections.map((section) => ({ title: section.title, ...wholeSection(section) }));
  const html = tabsHtml(pages);
  if (html.length > MOST_TABS) return undefined;
  return { 'text/html': html, 'text/plain': pages.flatMap(({ title, text }) => [title, text]).join('\n') };
}

/** The most characters of tabs in one output. */
const MOST_TABS = 8_000_000;

function fitsHtml(bundle: MimeBundle): boolean {
  return Object.keys(bundle).some((type) => type === 'text/html' || type.startsWith('image/'));
}

/** Time between two redraws while outputs arrive. */
const REDRAW_MS = 100;

/** Shows the grouped outputs of a call while it runs. */
export interface LiveOutput {
  add(event: RankEvent): void;
  /** Draws the text for the last time, then the figures and pictures that text cannot show; if they differ by rank, in tabs. */
  finish(): void;
}

/** Writes the ranks' prints to this process's own streams; each line begins with its rank. For scripts, which have no display. */
export function createPlainOutput(): LiveOutput {
  return {
    add(event) {
      if (event.kind !== 'stream') return;
      process[event.name].write(event.text.replace(/^(?=[\s\S])/gm, `[rank ${event.rank}] `));
    },
    finish: () => undefined,
  };
}

/**
 * Draws the outputs into one display and updates this display; a call without output makes no display. Errors are not
 * shown, because the call throws them.
 */
export function createLiveOutput(display: DisplaySink): LiveOutput {
  const output = new GroupedOutput();
  const show = replacingDisplay(display);
  let drawn: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  const draw = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (output.sections.length === 0) return;
    const bundle = sectionsBundle(output.sections);
    const text = JSON.stringify(bundle);
    if (text === drawn) return;
    show(bundle);
    drawn = text;
  };
  return {
    add(event) {
      if (event.kind === 'error') return;
      output.add(event);
      timer ??= setTimeout(draw, REDRAW_MS);
    },
    finish() {
      const tabs = tabsOfRanks(output.sections);
      if (tabs !== undefined) {
        clearTimeout(timer);
        show(tabs);
        return;
      }
      draw();
      for (const bundle of richParts(output.sections)) display.display(bundle);
    },
  };
}
