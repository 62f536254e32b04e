import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import { filesBelow, root } from '../places.mjs';
import { galleryPage } from './gallery.mjs';
import { notebookPage } from './notebook-page.mjs';

/** Pages of the clone that are not in docs, by their paths on the site. */
const MOVED = {
  'CHANGELOG.md': 'changes.md',
  'CONTRIBUTING.md': 'contributing.md',
  'README.md': 'index.md',
  'README.zh.md': 'zh/index.md',
  'docs/zh/index.md': 'zh/documentation.md',
  'docs/index.md': 'documentation.md',
  'docs/adr': 'adr/index.md',
};

/**
 * Writes the site's pages to `folder`: those of docs, notebooks with their outputs, the gallery of their figures, and lists that
 * have no page in the clone. Links between pages become links of the site; a link to a file that has no page becomes its text.
 */
export function writePages(folder) {
  rmSync(folder, { recursive: true, force: true });
  const write = (path, text) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const path of markdownFiles())
    write(sitePath(path), pageText(path, readFileSync(join(root, path), 'utf8')));
  for (const file of filesBelow(join(root, 'docs')).filter((name) => /\.(png|gif|webp|svg)$/.test(name))) {
    const target = join(folder, relative(join(root, 'docs'), file));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(file, target);
  }
  write('public/logo.svg', readFileSync(join(root, 'src', 'cli', 'install', 'logos', 'logo-svg.svg')));
  write('adr/index.md', decisions());
  const figures = notebookPaths().flatMap((path) => {
    const { markdown, pictures, figures } = notebookPage(
      path,
      JSON.parse(readFileSync(join(root, path), 'utf8')),
    );
    const page = sitePath(path);
    write(page, pageText(path, markdown));
    for (const [name, bytes] of pictures) write(posix.join(posix.dirname(page), 'pictures', name), bytes);
    return path.includes('.zh.') ? [] : figures;
  });
  write('gallery.md', galleryPage(figures));
}

const relativeFiles = (folder, ending) =>
  filesBelow(join(root, folder))
    .filter((file) => file.endsWith(ending) && !file.includes('.ipynb_checkpoints'))
    .map((file) => relative(root, file));

const markdownFiles = () => [
  ...relativeFiles('docs', '.md'),
  'README.md',
  'README.zh.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
];
const notebookPaths = () => relativeFiles('notebooks', '.ipynb');

/** The path on the site of a page or notebook of the clone; undefined: it has none. */
export function sitePath(path) {
  if (path in MOVED) return MOVED[path];
  const chinese = /^notebooks\/(.*)\.zh\.ipynb$/.exec(path);
  if (chinese) return `zh/notebooks/${chinese[1]}.md`;
  if (/^notebooks\/.*\.ipynb$/.test(path)) return path.replace(/\.ipynb$/, '.md');
  return /^docs\/.*\.(md|png|gif|webp|svg)$/.test(path) ? path.slice('docs/'.length) : undefined;
}

const LINK = /(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)/g;

/** Pages of wide tables, which have no outline beside them. */
const TABLES = /^docs\/reference\/(programs\/|settings|models|platforms)/;

/** The start of a path in an HTML element of README.md. */
const PICTURE = /((?:src|srcset|href)=")docs\//g;

/** A page's text with links of the site; characters that would be tags or expressions of Vue outside of code are escaped. */
export function pageText(path, text) {
  const from = posix.dirname(sitePath(path) ?? path);
  const links = text.replaceAll(LINK, (_, image, words, target, anchor = '') => {
    const page = sitePath(posix.normalize(posix.join(posix.dirname(path), target)).replace(/\/$/, ''));
    if (page === undefined) return words;
    const at = posix.relative(from, page);
    return `${image}[${words}](${at.startsWith('.') ? at : `./${at}`}${anchor})`;
  });
  const start = TABLES.test(path)
    ? '---\naside: false\n---\n\n'
    : /^README/.test(path)
      ? '---\nsidebar: false\n---\n\n'
      : '';
  return (
    start +
    outsideCode(
      links.replaceAll(PICTURE, `$1${posix.relative(from, '') || '.'}/`).replaceAll(/^<!-- .*? -->\n/gm, ''),
      (prose) =>
        prose
          .replaceAll(
            /<(?!\/?(img|div|picture|source|p|a|table|tr|td|details|summary)[ >])(?=[A-Za-z/!])/g,
            '&lt;',
          )
          .replaceAll('{{', '{&#123;'),
    )
  );
}

/** Applies `change` to the parts of Markdown that are neither fenced code, code spans nor HTML of outputs. */
function outsideCode(text, change) {
  const code =
    /(^(`{3,})[^\n]*\n[\s\S]*?^\2$|^<div class="output"[^\n]*(?:\n(?!<\/div>$)[^\n]*)*|`[^`\n]+`)/gm;
  let at = 0;
  let changed = '';
  for (const match of text.matchAll(code)) {
    changed += change(text.slice(at, match.index)) + match[0];
    at = match.index + match[0].length;
  }
  return changed + change(text.slice(at));
}

/** The list of decisions, by number. */
function decisions() {
  const names = readdirSync(join(root, 'docs', 'adr'))
    .filter((name) => /^\d+.*\.md$/.test(name))
    .sort();
  const items = names.map(
    (name) => `- [${titleOf(readFileSync(join(root, 'docs', 'adr', name), 'utf8'))}](./${name})`,
  );
  return `# Decisions\n\nEach page says what was decided, and why.\n\n${items.join('\n')}\n`;
}

/** The first heading of a page. */
export const titleOf = (text) => /^# (.*)$/m.exec(text)?.[1] ?? '';
