import { sideBar } from '../../scripts/lib/site/contents.mjs';

/** The anchor of a heading, as GitHub makes it, so that links work in both. */
const slugify = (text) =>
  text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');

export default {
  title: 'shardlab',
  description:
    'Shard a real training run in a notebook, and see where every byte and every millisecond goes.',
  srcDir: 'pages',
  outDir: '../build/site',
  cacheDir: '../build/site-cache',
  base: process.env.SHARDLAB_SITE_BASE ?? '/',
  lastUpdated: false,
  ignoreDeadLinks: [/^\/api\//, /^\/planner\//],
  markdown: {
    attrs: { disable: true },
    anchor: { slugify },
    toc: { slugify },
    headers: { slugify },
    lineNumbers: false,
  },
  locales: {
    root: { label: 'English', lang: 'en' },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Tutorial', link: '/tutorial/' },
      { text: 'How-to', link: '/documentation#how-to' },
      { text: 'Reference', link: '/documentation#reference' },
      { text: 'API', link: '/api/index.html', target: '_self' },
      { text: 'Gallery', link: '/gallery' },
      { text: 'Planner', link: '/planner/index.html', target: '_self' },
    ],
    sidebar: sideBar('docs/index.md'),
  },
};
