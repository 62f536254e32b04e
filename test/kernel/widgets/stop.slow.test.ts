import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { contents, JupyterClient, type Published, resultText, shownText } from '../jupyter-client';

const START = `
  import * as sl from 'shardlab';
  const job = await sl.launch({ ranks: 2 });
  const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
`;
let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await client.execute(START);
});

after(() => client.stop());

const VIEW = 'application/vnd.jupyter.widget-view+json';

/** Speaks to the kernel as a page with widgets does when it connects. */
async function connectPage(): Promise<void> {
  await client.tell('comm_open', { comm_id: 'page', target_name: 'jupyter.widget.control', data: {} });
  await client.tell('comm_msg', { comm_id: 'page', data: { method: 'request_states' } });
}

function opensWidget({ header, content }: Published): boolean {
  return header.msg_type === 'comm_open' && content.target_name === 'jupyter.widget';
}

async function send(id: unknown, content: object): Promise<void> {
  await client.tell('comm_msg', { comm_id: id, data: { method: 'custom', content } });
}

test('a client without widgets gets the same messages as ever', async () => {
  const exchange = await client.execute('await run.step(60)');
  const types = new Set(exchange.published.map(({ header }) => header.msg_type));
  assert.deepEqual(
    [...types].filter((type) => type.startsWith('comm')),
    [],
  );
  assert.match(shownText(exchange), /^step 60\/60/);
});

test('the Stop button ends the training after the running step, and the cell returns its steps', async () => {
  await connectPage();
  const opened = client.until(opensWidget);
  const running = client.execute('const summary = await run.step(100_000); summary');
  const { comm_id: id } = (await opened).content;
  const shown = client.until(
    ({ header, content }) => header.msg_type === 'update_display_data' && VIEW in Object(content.data),
  );
  await send(id, { does: 'loaded' });
  await shown;
  const before = client.until(
    ({ content }) => content.comm_id === id && Object(content.data).method === 'update',
  );
  await before;
  await client.request('comm_info_request');
  const status = client.published.findLast(({ header }) => header.msg_type === 'status');
  assert.equal(status?.content.execution_state, 'busy', 'an answer to a page does not end the cell');
  await send(id, { does: 'stop' });
  const exchange = await running;
  assert.deepEqual(contents(exchange, 'error'), []);
  assert.match(String(resultText(exchange)), /ended after step \d+, by the Stop button/);
  assert.match(shownText(exchange), /^step (\d+)\/\d+ .*ended after step \1, by the Stop button$/);
  const [last] = contents(exchange, 'update_display_data').slice(-1);
  assert.deepEqual(Object.keys(Object(last?.data)), ['text/plain'], 'the button goes');
  const info = await client.request('comm_info_request', { target_name: 'jupyter.widget' });
  assert.deepEqual(info.content.comms, {});
  const more = await client.execute('(await run.step(2)).lastStep - summary.lastStep');
  assert.equal(resultText(more), '2', 'the run goes on after the last step');
});

test('the Stop button ends a loop over steps and a training with evaluations', async () => {
  const opened = client.until(opensWidget);
  const running = client.execute(`
    let count = 0;
    for await (const { step } of run.steps(100_000)) count++;
    [count > 0, run.lastStep > count].join()
  `);
  const { comm_id: id } = (await opened).content;
  await send(id, { does: 'loaded' });
  await send(id, { does: 'stop' });
  assert.equal(resultText(await running), "'true,true'");
});

test('a callback of a slider may train: its progress is shown beneath the slider', async () => {
  const exchange = await client.execute(`
    sl.slider({ min: 6, max: 60 }).onChange(async (n) => {
      const { numSteps } = await run.step(n);
      return \`\${numSteps} steps\`;
    })
  `);
  // On a busy machine, the slider is shown before its first call has ended.
  assert.match(
    String(resultText(exchange) ?? shownText(exchange)),
    /^slider = 6 .*\nstep \d+\/\d+ .*\n'6 steps'$/,
  );
});

test('a page that has connected gets the button also after the process of the cells was replaced', async () => {
  const died = await client.execute("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})");
  assert.equal(contents(died, 'error')[0]?.ename, 'KernelDied');
  await client.execute(START);
  const opened = client.until(opensWidget);
  const running = client.execute('await run.step(100_000)');
  const { comm_id: id } = (await opened).content;
  await send(id, { does: 'loaded' });
  await send(id, { does: 'stop' });
  assert.match(String(resultText(await running)), /by the Stop button/);
});
