import { testCells } from './run-pages';

testCells('cell', (page) => /^docs\/how-to\/[a-k]/.test(page));
