// [Smoke: a cell, a job of each strategy, a figure, a plan, a checkpoint, a bundle]
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { STRATEGIES, STRATEGY_NAMES } from '../../src/config/strategies';
import { type Exchange, JupyterClient, resultText } from './jupyter-client';

const CONFIG =
  "{ model: { kind: 'gpt', layers: 1, dim: 8, heads: 1, vocab: 32, seq: 4 }, data: 'synthetic', batch: 1 }";

/** Each cell, with the text that its last value must contain. */
const CELLS: readonly (readonly [code: string, shows: RegExp])[] = [
  ["import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 2 });\njob.ranks.length", /^2$/],
  ['%%ranks\nconst sum = dist.allReduce(tf.scalar(rank + 1)).dataSync()[0]; sum', /3/],
  ...STRATEGY_NAMES.map((strategy, i) => {
    const mesh = STRATEGIES[strategy].isHybrid ? ', mesh: { dpReplicate: 2, dpShard: 1 }' : '';
    const config = `{ ...${CONFIG}, parallel: { strategy: '${strategy}'${mesh} } }`;
    const train = `const run${i} = await job.train(${config});\nawait run${i}.step(2);`;
    return [`${train}\nNumber.isFinite(run${i}.losses.at(-1))`, /^true$/] as const;
  }),
  [
    `const run = await job.train(${CONFIG});\nawait run.step(2);\nrun.memory().toString().length > 0`,
    /^true$/,
  ],
  ["await run.save('./saved');\nawait run.load('./saved');\nrun.lastStep", /^2$/],
  [
    "const report = await run.export({ to: 'torchrun', out: './bundle' });\nreport.files.length > 2",
    /^true$/,
  ],
  ["sl.plan('llama3-8b', { on: 'H100-80G', gpus: 64 }).toString().length > 0", /^true$/],
];

it('a notebook trains under each strategy, draws a figure, plans, saves a checkpoint and writes a bundle', async (context) => {
  const client = await JupyterClient.start();
  context.after(() => {
    client.process.kill('SIGKILL');
    client.close();
  });
  for (const [code, shows] of CELLS) {
    const exchange = await client.execute(code);
    assert.equal(exchange.reply.content.status, 'ok', `${code}\n${JSON.stringify(exchange.reply.content)}`);
    assert.match(textOf(exchange), shows, code);
  }
  assert.ok(existsSync(join(client.folder, 'saved')));
  assert.match(readFileSync(join(client.folder, 'bundle', 'train.py'), 'utf8'), /import torch/);
});

function textOf(exchange: Exchange): string {
  return String(
    resultText(exchange) ?? exchange.published.map(({ content }) => JSON.stringify(content)).join(),
  );
}
