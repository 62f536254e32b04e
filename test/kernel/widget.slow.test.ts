import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { contents, JupyterClient, type Published, resultText } from './jupyter-client';
import { PLAYER_CELL } from './player-cell';

const WIDGET = 'application/vnd.jupyter.widget-view+json';

let client: JupyterClient;
before(async () => {
  client = await JupyterClient.start();
});
after(() => client.stop());

interface State {
  readonly view?: { readonly rounds: readonly unknown[] };
  readonly live?: { readonly isLive: boolean; readonly isBusy: boolean };
}

/** The model's values that a message of the kernel changes. */
function stateOf({ header, content }: Published): State | undefined {
  if (header.msg_type !== 'comm_msg') return undefined;
  const { state } = Object(content.data);
  return state as State | undefined; // the widget's values, as the kernel sends them
}

/** Sends a request of the player's buttons as a front end does, and resolves when the player may be asked again. */
async function ask(id: string, message: object): Promise<number> {
  const views: number[] = [];
  const answered = client.until((published) => {
    const state = stateOf(published);
    if (state?.view !== undefined) views.push(state.view.rounds.length);
    return state?.live?.isBusy === false;
  });
  await client.tell('comm_msg', { comm_id: id, data: { method: 'custom', content: message } });
  await answered;
  return views.at(-1) ?? 0;
}

test('a player of a cell moves the ranks while no cell runs and while one runs, and ends with the walk', async () => {
  await client.execute(PLAYER_CELL);
  const display = await client.execute('shown');
  assert.deepEqual(contents(display, 'execute_result'), [], 'the value shows itself');
  const [output] = contents(display, 'display_data');
  const data = Object(output?.data);
  assert.deepEqual(Object.keys(data), ['text/html', 'text/plain', WIDGET]);
  const [opened] = contents(display, 'comm_open');
  const id = String(opened?.comm_id);
  assert.equal(data[WIDGET].model_id, id);
  assert.equal(opened?.target_name, 'jupyter.widget');

  assert.equal(await ask(id, { does: 'next' }), 2);
  assert.equal(await ask(id, { does: 'until', text: 'loss' }), 11);

  const running = client.execute(
    'await new Promise<void>((resolve) => walk.onChange(resolve)); walk.calls.length',
  );
  await client.until(({ header }) => header.msg_type === 'execute_input');
  // The cell ends only if the request is answered while it runs; it may be sent before the cell listens.
  let isDone = false;
  void running.then(() => {
    isDone = true;
  });
  for (let rounds = 12; !isDone; rounds++) {
    assert.equal(await ask(id, { does: 'next' }), rounds);
    // The walk has 27 rounds, and the cell needs a while to begin.
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  assert.ok(Number(resultText(await running)) >= 3);

  const restored = client.until((message) => stateOf(message)?.view !== undefined);
  await client.tell('comm_msg', { comm_id: id, data: { method: 'request_state' } });
  assert.ok(
    (stateOf(await restored)?.view?.rounds.length ?? 0) > 11,
    'a page that is loaded again gets the present view',
  );
});

test('when the walk ends, the output has no widget any more, and the channel is closed', async () => {
  const display = await client.execute('shown');
  const id = String(contents(display, 'comm_open')[0]?.comm_id);
  const [output] = contents(display, 'display_data');
  const updated = client.until(({ header }) => header.msg_type === 'update_display_data');
  const closed = client.until(
    ({ header, content }) => header.msg_type === 'comm_close' && content.comm_id === id,
  );
  await client.tell('comm_msg', { comm_id: id, data: { method: 'custom', content: { does: 'live' } } });
  await closed;
  const { content } = await updated;
  assert.deepEqual(Object.keys(Object(content.data)), ['text/html', 'text/plain']);
  assert.ok(Object(output?.transient).display_id !== undefined);
  const info = await client.request('comm_info_request', { target_name: 'jupyter.widget' });
  assert.ok(!(id in Object(info.content.comms)));
});
