import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core';
import { videoSheet } from '../../src/figures/video-sheet';

test('a sheet of videos keeps each pixel, and its paper and text follow the theme', () => {
  // The colours of the light theme's text and paper are no theme's colours within a frame.
  const pixels = Uint8Array.from([0x22, 0x22, 0x22, 0xff, 0xff, 0xff]);
  const sheet = videoSheet('Videos', [{ caption: 'a <b> & c', size: [1, 1, 2], pixels }]);
  const bundle = sheet[DISPLAY]?.() ?? {};
  const [, data = ''] = /base64,([^"]+)/.exec(String(bundle['text/html'])) ?? [];
  const svg = Buffer.from(data, 'base64').toString();
  assert.match(svg, /prefers-color-scheme:dark\)\{[^}]*\.paper\{fill:#111111\}/);
  assert.match(svg, /\[fill="#222222"\]\{fill:#e4e4e4\}/);
  assert.match(svg, /a &lt;b&gt; &amp; c/);
  const { Resvg } = require('@resvg/resvg-js') as typeof import('@resvg/resvg-js');
  const { pixels: drawn, width } = new Resvg(sheet.toSvg()).render();
  const at = (x: number, y: number): number[] => [
    ...drawn.subarray(4 * (y * width + x), 4 * (y * width + x) + 3),
  ];
  // Frames begin 6 pixels from the left, below a title and a caption, and are 96 pixels wide.
  assert.deepEqual(at(10, 60), [0x22, 0x22, 0x22]);
  assert.deepEqual(at(52, 60), [0x22, 0x22, 0x22]);
  assert.deepEqual(at(56, 60), [0xff, 0xff, 0xff]);
});
