import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePackages } from '../packages.mjs';
import { root } from '../places.mjs';
import { mustRun } from '../run.mjs';
import { step } from '../step.mjs';
import { writePages } from './pages.mjs';

/** The folder of the site's packages and settings. */
const SITE = join(root, 'site');

/** The folder of the built site. */
export const BUILT_SITE = join(root, 'build', 'site');

/** Builds the site into build/site: the pages, the API of every name, and the planner's page. The project must be built. */
export async function buildSite() {
  await step('packages of the site', (say) => ensurePackages(say, process.env, SITE));
  await step('pages', () => writePages(join(SITE, 'pages')));
  await step('site', () => tool('vitepress', ['build', SITE], 'VitePress did not build the site'));
  // esbuild is loaded after its package was installed.
  const { buildPlannerPage } = await import('../planner-page.mjs');
  await step("planner's page", () => buildPlannerPage(join(BUILT_SITE, 'planner', 'index.html')));
  await step('API', () =>
    tool('typedoc', ['--out', join(BUILT_SITE, 'api')], 'typedoc found errors in docstrings'),
  );
}

/** Checks the site's links, with their anchors, and the spelling of its pages. Throws: a StepError that lists what is wrong. */
export async function checkSite() {
  await step('links', () => checkLinks());
  await step('spelling', () =>
    tool(
      'cspell',
      ['--no-progress', '--no-summary', '--config', join(SITE, 'cspell.json'), ...spelledPages()],
      'words that no dictionary has',
      'correct the words, or add new terms of the field to site/words.txt',
    ),
  );
}

/** The pages whose words are checked; texts of other languages are left out. */
const spelledPages = () => [
  ...readdirSync(root).filter((name) => name.endsWith('.md') && !name.includes('.zh.')),
  ...readdirSync(join(root, 'docs'), { recursive: true })
    .filter((name) => name.endsWith('.md') && !name.startsWith('zh/'))
    .map((name) => join('docs', name)),
];

/** Links to other hosts are not followed: the site must build without a network. */
async function checkLinks() {
  const args = [
    BUILT_SITE,
    '--recurse',
    '--skip',
    '^https?://(?!localhost)',
    '--skip',
    '/api/(?!index)',
    '--verbosity',
    'error',
  ];
  await tool('linkinator', args, 'links that lead nowhere');
}

/** Runs a program of the site's packages. */
function tool(name, args, what, ...advice) {
  const command = join(SITE, 'node_modules', '.bin', name);
  return mustRun(command, args, { cwd: root, env: process.env }, `${what}:`, ...advice);
}
