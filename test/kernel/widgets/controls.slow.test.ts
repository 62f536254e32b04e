import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../../../kernel/front/wire';
import { contents, type Exchange, JupyterClient, type Published, resultText } from '../jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await client.execute("import * as sl from 'shardlab'");
});

after(() => client.stop());

const VIEW = 'application/vnd.jupyter.widget-view+json';

/** A widget that a cell has shown: its channel, and the bundle of its output. */
interface ShownWidget {
  readonly id: string;
  readonly data: JsonObject;
}

function shownWidget(exchange: Exchange): ShownWidget {
  const [error] = contents(exchange, 'error');
  assert.equal(error, undefined, String(error?.evalue));
  // On a busy machine, a control is shown before its first call has ended.
  const types = ['execute_result', 'update_display_data', 'display_data'];
  const [content] = types.flatMap((type) => contents(exchange, type));
  const data = Object(content?.data);
  return { id: data[VIEW].model_id, data };
}

function stateOf({ header, content }: Published, id: string): JsonObject | undefined {
  if (header.msg_type !== 'comm_msg' || content.comm_id !== id) return undefined;
  return Object(Object(content.data).state);
}

/** Moves a control as a page does. */
async function move(id: string, value: unknown): Promise<void> {
  await client.tell('comm_msg', { comm_id: id, data: { method: 'update', state: { value } } });
}

/** Resolves with the next text that is shown beneath a control and contains `part`. */
async function shows(id: string, part: string): Promise<string> {
  const textOf = (message: Published): string =>
    String(Object(stateOf(message, id)?.stored)['text/plain'] ?? '');
  return textOf(await client.until((message) => textOf(message).includes(part)));
}

async function variable(source: string): Promise<unknown> {
  return resultText(await client.execute(source));
}

test('a slider shows what its callback prints, shows and returns, and each change replaces it', async () => {
  const { id, data } = shownWidget(
    await client.execute(`
      const gpus = sl.slider({ min: 8, max: 512, step: 8, value: 64, label: 'gpus' });
      gpus.onChange((n) => {
        console.log('printed', n);
        display(sl.plot([n, 2 * n], { yTitle: 'twice' }));
        return n + 1;
      });
    `),
  );
  assert.match(
    String(data['text/plain']),
    /^slider gpus = 64 \(8 to 512, step 8\)\nprinted 64\n[\s\S]*twice[\s\S]*\n65$/,
  );
  assert.match(String(data['text/html']), /<b>gpus<\/b> <code>64<\/code>[\s\S]*<img [\s\S]*65/);
  const shown = shows(id, '\n129');
  await move(id, 128);
  assert.match(await shown, /^slider gpus = 128 .*\nprinted 128\n[\s\S]*\n129$/);
  assert.equal(await variable('gpus.value'), '128');
  const set = shows(id, 'printed 256');
  await client.execute('gpus.value = 256');
  assert.doesNotMatch(await set, /printed 128/);
});

test('a select gives the values of its texts, and impossible values are refused', async () => {
  const { id, data } = shownWidget(
    await client.execute(`
      const nodes = sl.select({ options: { 'one node': 8, 'two nodes': 16 }, label: 'nodes' });
      nodes.onChange((n) => \`\${n satisfies 8 | 16} GPUs\`)
    `),
  );
  assert.equal(data['text/plain'], "select nodes = one node (of one node, two nodes)\n'8 GPUs'");
  const shown = shows(id, '16 GPUs');
  await move(id, 1);
  await shown;
  await move(id, 7);
  assert.equal(await variable('nodes.value'), '16', 'a page cannot choose what is no option');
  const wrong = await client.execute('(nodes as any).value = 5');
  assert.match(String(contents(wrong, 'error')[0]?.evalue), /select.value = 5 is not possible/);
  const over = await client.execute('sl.slider({ max: 10, value: 11 })');
  assert.match(String(contents(over, 'error')[0]?.evalue), /value 11 is not from 0 to 10/);
});

test('a control whose first call takes long is shown before the call has ended, and stored with its end', async () => {
  const exchange = await client.execute(`
    const slow = sl.slider().onChange(async () => {
      console.log('first part');
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return 'second part';
    });
    slow
  `);
  assert.deepEqual(contents(exchange, 'execute_result'), []);
  const [shown] = contents(exchange, 'display_data');
  const [stored, ...more] = contents(exchange, 'update_display_data');
  assert.deepEqual(more, []);
  const texts = [shown, stored].map((content) => String(Object(content?.data)['text/plain']));
  assert.deepEqual(texts, [
    'slider = 0 (0 to 100, step 1)\nfirst part',
    "slider = 0 (0 to 100, step 1)\nfirst part\n'second part'",
  ]);
});

test('an error of a callback is shown beneath the widget with its line, and the next value replaces it', async () => {
  const { id, data } = shownWidget(
    await client.execute(`const fails = sl.slider({ max: 3 }).onChange((n) => {
  if (n === 1) throw new TypeError('no ones');
  return n;
});
fails`),
  );
  assert.match(String(data['text/plain']), /\n0$/);
  const failed = shows(id, 'no ones');
  await move(id, 1);
  const traceback = await failed;
  assert.match(traceback, /TypeError: no ones\n {2}In\[\d+\]:2:22\n.*throw new TypeError/);
  assert.doesNotMatch(traceback, /callback|\.js/, 'frames of the kernel');
  const good = shows(id, '\n2');
  await move(id, 2);
  assert.doesNotMatch(await good, /TypeError/);
});

test('while a callback runs, only the newest value waits, and pages get at most five changes a second', async () => {
  const { id } = shownWidget(
    await client.execute(`
      const calls: number[] = [];
      const dragged = sl.slider({ max: 1000 }).onChange(async (n) => {
        calls.push(n);
        for (let i = 0; i < 20; i++) {
          console.log(n, i);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      });
      dragged
    `),
  );
  let numChanges = 0;
  const shown = client.until((message) => {
    const state = stateOf(message, id);
    if (state?.shown !== undefined) numChanges++;
    return String(Object(state?.stored)['text/plain']).includes('200 19');
  });
  const start = performance.now();
  for (let value = 1; value <= 200; value++) await move(id, value);
  await shown;
  const seconds = (performance.now() - start) / 1000;
  const calls = String(await variable('calls.join()')).split(',').length;
  // A call takes at least 0.4 s.
  assert.ok(calls <= 2 + seconds / 0.4, `${calls} calls for 200 values in ${seconds} s`);
  assert.ok(numChanges <= 5 * seconds + 2 * calls, `${numChanges} changes in ${seconds} s`);
});

test('50 interrupts in a callback, of a loop or of a wait, keep the variables and the widget', async () => {
  const { id } = shownWidget(
    await client.execute(`
      let kept = 0;
      const endless = sl.slider({ max: 100 }).onChange(async (n) => {
        kept += n === 0 ? 0 : 1;
        if (n === 0) return 'ready';
        comms.open('begun', { n });
        if (n % 2 === 0) for (;;);
        await new Promise(() => {});
      });
      endless
    `),
  );
  for (let value = 1; value <= 50; value++) {
    const interrupted = shows(id, 'the callback was interrupted');
    const begun = client.until(({ content }) => content.target_name === 'begun');
    await move(id, value);
    await begun;
    await client.request('interrupt_request', {}, 'control');
    await interrupted;
  }
  assert.equal(await variable('[kept, endless.value].join()'), "'50,50'");
  const ready = shows(id, 'ready');
  await move(id, 0);
  await ready;
  assert.equal(await variable('kept'), '50');
});

test('a page that is loaded again gets the value and what the callback has shown', async () => {
  const { id } = shownWidget(
    await client.execute('sl.slider({ max: 5, label: "again" }).onChange((n) => "is " + n)'),
  );
  const shown = shows(id, 'is 4');
  await move(id, 4);
  await shown;
  const control = 'control-of-a-new-page';
  await client.tell('comm_open', { comm_id: control, target_name: 'jupyter.widget.control', data: {} });
  const states = client.until(
    ({ content }) => content.comm_id === control && Object(content.data).method === 'update_states',
  );
  await client.tell('comm_msg', { comm_id: control, data: { method: 'request_states' } });
  const { data } = (await states).content;
  const restored = Object(data).states[id];
  assert.equal(restored.model_name, 'AnyModel');
  assert.equal(restored.state.value, 4);
  assert.match(restored.state.shown, /is 4/);
  const moved = shows(id, 'is 2');
  await move(id, 2);
  await moved;
});
