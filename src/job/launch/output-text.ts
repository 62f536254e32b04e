import type { MimeBundle } from '../../cell/mime';
import { escapeHtml } from '../../figures/escape';
import type { OutputSection } from './outputs';

/**
 * Sections as one bundle of text and HTML: each section's title, prints, last value and error. Rich parts (figures,
 * pictures) are only named here; `richParts` shows them.
 */
export function sectionsBundle(sections: readonly OutputSection[]): MimeBundle {
  return {
    'text/plain': sections
      .flatMap((section) => [section.title, ...itemsOf(section).map(({ text }) => text)])
      .join('\n'),
    'text/html': sections.map(sectionHtml).join(''),
  };
}

/** Bundles of the sections that text cannot show; display each one separately. */
export function richParts(sections: readonly OutputSection[]): MimeBundle[] {
  return sections.flatMap((section) => bundlesOf(section).filter(isRich));
}

/** An output as text and as HTML. */
interface Item {
  readonly text: string;
  readonly html: string;
}

function sectionHtml(section: OutputSection): string {
  const title = `<div style="opacity:.65;font-size:90%">${escapeHtml(section.title)}</div>`;
  const parts = itemsOf(section).map(({ html }) => html);
  return `<div style="margin-bottom:.4em">${title}${parts.join('')}</div>`;
}

/** The prints, displays, last value and error of a section, in order. */
function itemsOf({ shown, result, error }: OutputSection): Item[] {
  const items = shown.map((item) => {
    if (item.kind === 'bundle') return bundleItem(item.bundle);
    const style = item.name === 'stderr' ? 'border-left:3px solid #c44e52;padding-left:.5em' : '';
    return textItem(item.text.replace(/\n$/, ''), style);
  });
  if (result !== undefined) items.push(bundleItem(result));
  if (error !== undefined) items.push(textItem(error.traceback.join('\n'), 'color:#c44e52'));
  return items;
}

function textItem(text: string, style: string): Item {
  return { text, html: pre(text, style) };
}

/** A value's own HTML if it has any, else its text; a figure is shown below, separately. */
function bundleItem(bundle: MimeBundle): Item {
  const plain = bundle['text/plain'];
  const text = typeof plain === 'string' ? plain : `(${Object.keys(bundle).join(', ')})`;
  if (isRich(bundle)) return { text, html: pre('(shown below)', 'opacity:.65') };
  const html = bundle['text/html'];
  return { text, html: typeof html === 'string' ? html : pre(text, '') };
}

function bundlesOf({ shown, result }: OutputSection): MimeBundle[] {
  const displayed = shown.flatMap((item) => (item.kind === 'bundle' ? [item.bundle] : []));
  return result === undefined ? displayed : [...displayed, result];
}

function isRich(bundle: MimeBundle): boolean {
  return Object.keys(bundle).some((type) => type.startsWith('image/') || type.startsWith('application/vnd.'));
}

function pre(text: string, style: string): string {
  return `<pre style="margin:0;${style}">${escapeHtml(text)}</pre>`;
}
