import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { layoutAnswer, planAnswer, readingAnswer } from '../../src/planner/answer';
import { fittingLines } from '../../src/planner/explain';
import { type PlanInput, plannedInput } from '../../src/planner/plan-input';
import { importScript } from '../project/scripts';
import { PLANS } from './plans';

/** The page as scripts/lib/planner-page.mjs makes it. */
interface Page {
  readonly html: string;
  readonly script: string;
  readonly sources: readonly string[];
}

/** What the page's script adds to its global object. */
interface InPage {
  plan(settings: object): object;
  hash(settings: object): string;
  settings(hash: string): object;
}

const page = importScript<{ plannerPage(): Promise<Page> }>('planner-page').then((script) =>
  script.plannerPage(),
);

/** Runs the page's script where only JavaScript is: no require, no process, no document. */
const inPage = page.then(({ script }) => {
  const context = createContext({});
  runInContext(script, context);
  return context.shardlab as InPage;
});

test('the page of the planner is one file of at most 200 kB after gzip, which loads nothing', async () => {
  const { html } = await page;
  const { length } = gzipSync(html);
  assert.ok(length <= 200_000, `${length} bytes`);
  const [markup = ''] = html.split('<script>');
  assert.doesNotMatch(markup, /<(script|img|iframe)[^>]* src=|<link[^>]* href="(?!data:,)|@import|url\(/);
  assert.doesNotMatch(markup, /"error rows"|\/\* style \*\//);
  assert.match(markup, /"source":"vTrain","runs":"1440"/);
});

test('what the page reaches imports no module of node, and no code of engine, wire, nn or session', async () => {
  const { script, sources } = await page;
  assert.ok(!/node:|require\(/.test(script));
  const flats = new Set(sources.map((path) => path.split('/').slice(0, 2).join('/')));
  assert.deepEqual([...flats].sort(), [
    'node_modules/zod',
    'site/planner',
    'src/config',
    'src/core',
    'src/figures',
    'src/planner',
  ]);
  assert.deepEqual(
    sources.filter((path) => path.startsWith('src/planner/dry-run/')),
    [],
  );
});

test('a page plans as a process does, to the last digit', async () => {
  const { plan } = await inPage;
  for (const [name, settings] of Object.entries(PLANS)) {
    const planned = plannedInput(settings as PlanInput);
    const nearest = fittingLines(planned);
    const expected = {
      ...planAnswer(undefined, planned.prediction),
      ...readingAnswer(planned),
      ...(nearest.length === 0 ? {} : { nearest }),
      layout: layoutAnswer(planned.layout),
    };
    assert.deepEqual(JSON.parse(JSON.stringify(plan(settings))), expected, name);
    assert.equal(planned.prediction.fits, name !== 'does not fit', name);
  }
});

test('a link holds a plan', async () => {
  const { hash, settings } = await inPage;
  const strange = {
    model: { like: 'a&b#c%d é"', seq: 7 },
    data: 'true',
    lora: {},
    frozen: ['x=y', '1'],
    x: null,
  };
  for (const plan of [...Object.values(PLANS), strange, { compile: true, on: '12' }]) {
    const text = hash(plan);
    assert.match(text, /^[!-~]+$/);
    assert.deepEqual(JSON.parse(JSON.stringify(settings(`#${text}`))), plan, text);
  }
  assert.equal(hash({ model: 'llama3-8b', parallel: { tp: 2 } }), 'model=llama3-8b&parallel.tp=2');
});

test('a page refuses what needs files or modules, and says what to give instead', async () => {
  const { plan } = await inPage;
  const messageOf = (settings: object): string => {
    try {
      plan(settings);
    } catch (error) {
      return String(error);
    }
    return 'no error';
  };
  const llama = { model: 'llama3-8b', on: 'H100-80G', gpus: 8 };
  assert.match(messageOf({ ...llama, model: { from: './llama' } }), /no files can be read here/);
  assert.match(messageOf({ ...llama, lora: { r: 8 } }), /give trainedShare/);
  assert.match(messageOf({ ...llama, model: './config.json' }), /is not known/);
  assert.match(messageOf({ ...llama, paralel: {} }), /did you mean "parallel"/);
  assert.equal(messageOf({ ...llama, lora: { r: 64 }, trainedShare: 0.02 }), 'no error');
});
