/**
 * The checksum by which the line under a cell remembers the source it belongs to.
 */

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let i = 0; i < 8; i++) {
    n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  }
  return n;
});

/**
 * CRC-32 of a text in UTF-8, as eight hexadecimal digits.
 */
export function crc32(text: string): string {
  let crc = ~0;
  for (const byte of new TextEncoder().encode(text)) {
    crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff];
  }
  return (~crc >>> 0).toString(16).padStart(8, '0');
}
