import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { root } from '../places.mjs';
import { sitePath } from './pages.mjs';

const LINK = /\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g;

/**
 * The side bar in the order of docs/index.md: a group per heading, and an entry per link. The tutorial's entries are the
 * notebooks, and those of programs are the pages of their keys.
 *
 * @param {string} index the page whose links are the entries, from the clone's root
 */
export function sideBar(index) {
  const groups = [];
  for (const line of readFileSync(join(root, index), 'utf8').split('\n')) {
    const heading = /^## (.*)$/.exec(line);
    if (heading) groups.push({ text: heading[1], collapsed: false, items: [] });
    else groups.at(-1)?.items.push(...linksOf(index, line).map(withItsPages));
  }
  return groups.filter(({ items }) => items.length > 0);
}

function linksOf(page, text) {
  return [...text.matchAll(LINK)].flatMap(([, words, target]) => {
    const path = posix.normalize(posix.join(posix.dirname(page), target)).replace(/\/$/, '');
    const link = sitePath(path);
    return link === undefined || !link.endsWith('.md')
      ? []
      : [{ text: capital(words), link: `/${link.replace(/\.md$/, '')}`, path }];
  });
}

/** Pages whose tables list further pages. */
const LISTS = /^docs\/(tutorial\/index|reference\/programs\/index|zh\/tutorial)\.md$/;

function withItsPages({ text, link, path }) {
  if (!LISTS.test(path)) return { text, link };
  const rows = readFileSync(join(root, path), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| ['));
  const items = rows
    .flatMap((row) => linksOf(path, row).slice(0, 1))
    .map(({ text: words, link: to }) => ({ text: words, link: to }));
  return { text, link: link.replace(/\/index$/, '/'), collapsed: path.includes('programs'), items };
}

const capital = (text) => `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}`;
