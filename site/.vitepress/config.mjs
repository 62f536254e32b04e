import { sideBar } from '../../scripts/lib/site/contents.mjs';

/** The anchor of a heading, as GitHub makes it, so that links work in both. */
const slugify = (text) =>
  text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');

/** The entries at the top of every page, in a language. */
const nav = ([tutorial, howTo, reference, api, gallery, planner], documentation) => [
  { text: tutorial[0], link: tutorial[1] },
  { text: howTo, link: `${documentation}#${slugify(howTo)}` },
  { text: reference, link: `${documentation}#${slugify(reference)}` },
  { text: api, link: '/api/index.html', target: '_self' },
  { text: gallery, link: '/gallery' },
  { text: planner, link: '/planner/index.html', target: '_self' },
];

/** The path below which the site is served. */
const base = process.env.SHARDLAB_SITE_BASE ?? '/';

/** The most characters of code in a sentence that is not broken at a hyphen or a blank. */
const SHORT = 20;

/** Keeps short code in one line: `--help` would otherwise be broken after its first hyphen. */
function keepShortCode(md) {
  const { code_inline: plain } = md.renderer.rules;
  md.renderer.rules.code_inline = (tokens, index, ...rest) => {
    if (tokens[index].content.length <= SHORT) tokens[index].attrJoin('class', 'short');
    return plain(tokens, index, ...rest);
  };
}

export default {
  title: 'shardlab',
  description:
    'Shard a real training run in a notebook, and see where every byte and every millisecond goes.',
  srcDir: 'pages',
  outDir: '../build/site',
  cacheDir: '../build/site-cache',
  base,
  head: [['link', { rel: 'icon', href: `${base}logo.svg` }]],
  lastUpdated: false,
  ignoreDeadLinks: [/^\/api\//, /^\/planner\//],
  markdown: {
    attrs: { disable: true },
    anchor: { slugify },
    toc: { slugify },
    headers: { slugify },
    lineNumbers: false,
    config: keepShortCode,
  },
  locales: {
    root: {
      label: 'English',
      lang: 'en',
      themeConfig: {
        nav: nav(
          [['Tutorial', '/tutorial/'], 'How-to', 'Reference', 'API', 'Gallery', 'Planner'],
          '/documentation',
        ),
        sidebar: sideBar('docs/index.md'),
      },
    },
    zh: {
      label: '中文',
      lang: 'zh-CN',
      themeConfig: {
        nav: nav(
          [['教程', '/zh/tutorial'], '操作指南', '参考', 'API', '图例', '规划器'],
          '/zh/documentation',
        ),
        sidebar: { '/zh/': sideBar('docs/zh/index.md'), '/': sideBar('docs/index.md') },
        outline: { level: [2, 3], label: '本页目录' },
        docFooter: { prev: '上一页', next: '下一页' },
      },
    },
  },
  // Most pages are in English only, so a change of the language leads to the front page.
  themeConfig: { search: { provider: 'local' }, outline: [2, 3], i18nRouting: false, logo: '/logo.svg' },
};
