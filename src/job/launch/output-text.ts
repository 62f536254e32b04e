import type { MimeBundle } from '../../cell/mime';
import { escapeHtml } from '../../figures/escape';
import type { OutputSection } from './outputs';

/**
 * Sections as one bundle of text and HTML: each section's title, prints, last value and error. Rich parts (figures,
 * pictures) are only named here; `richParts` shows them.
 */
export function sectionsBundle(sections: readonly OutputSection[]): MimeBundle {
  return {
    'text/plain': sections.map(sectionText).join('\n'),
    'text/html': sections.map(sectionHtml).join(''),
  };
}

/** Bundles of the sections that text cannot show; display each one separately. */
export function richParts(sections: readonly OutputSection[]): MimeBundle[] {
  return sections.flatMap((section) => bundlesOf(section).filter(isRich));
}

function sectionText(section: OutputSection): string {
  return [section.title, ...partTexts(section)].join('\n');
}

function sectionHtml(section: OutputSection): string {
  const parts = [...shownHtml(section), ...resultHtml(section), ...errorHtml(section)];
  const title = `<div style="opacity:.65;font-size:90%">${escapeHtml(section.title)}</div>`;
  return `<div style="margin-bottom:.4em">${title}${parts.join('')}</div>`;
}

function partTexts({ shown, result, error }: OutputSection): string[] {
  const before = shown.map((item) =>
    item.kind === 'text' ? item.text.replace(/\n$/, '') : plainText(item.bundle),
  );
  const last = result === undefined ? [] : [plainText(result)];
  return [...before, ...last, ...(error === undefined ? [] : [error.traceback.join('\n')])];
}

function shownHtml({ shown }: OutputSection): string[] {
  return shown.map((item) => {
    if (item.kind === 'bundle') return bundleHtml(item.bundle);
    const style = item.name === 'stderr' ? 'border-left:3px solid #c44e52;padding-left:.5em' : '';
    return pre(item.text.replace(/\n$/, ''), style);
  });
}

function resultHtml({ result }: OutputSection): string[] {
  return result === undefined ? [] : [bundleHtml(result)];
}

function errorHtml({ error }: OutputSection): string[] {
  return error === undefined ? [] : [pre(error.traceback.join('\n'), 'color:#c44e52')];
}

/** A value's own HTML if it has any, else its text; a figure is shown below, separately. */
function bundleHtml(bundle: MimeBundle): string {
  if (isRich(bundle)) return pre('(shown below)', 'opacity:.65');
  const html = bundle['text/html'];
  return typeof html === 'string' ? html : pre(plainText(bundle), '');
}

function bundlesOf({ shown, result }: OutputSection): MimeBundle[] {
  const displayed = shown.flatMap((item) => (item.kind === 'bundle' ? [item.bundle] : []));
  return result === undefined ? displayed : [...displayed, result];
}

function isRich(bundle: MimeBundle): boolean {
  return Object.keys(bundle).some((type) => type.startsWith('image/') || type.startsWith('application/vnd.'));
}

function plainText(bundle: MimeBundle): string {
  const text = bundle['text/plain'];
  return typeof text === 'string' ? text : `(${Object.keys(bundle).join(', ')})`;
}

function pre(text: string, style: string): string {
  return `<pre style="margin:0;${style}">${escapeHtml(text)}</pre>`;
}
