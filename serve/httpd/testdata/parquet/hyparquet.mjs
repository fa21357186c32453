// Reads the rows of a host from the table at a URL, over HTTP ranges. Arguments: URL, Authorization, host.
// The answer is JSON: the rows, the bytes fetched, and the number of requests.
import { asyncBufferFromUrl, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const [url, authorization, host] = process.argv.slice(2)
let requests = 0, bytes = 0
const counted = async (...request) => {
  const response = await fetch(...request)
  requests++
  if (response.status === 206) bytes += Number(response.headers.get('content-length'))
  return response
}
const file = await asyncBufferFromUrl({ url, fetch: counted, requestInit: { headers: { authorization } } })
const rows = await parquetReadObjects({
  file, compressors, useOffsetIndex: true, filter: { url_host_name: { $eq: host } }, columns: ['url', 'fetch_status', 'edition', 'url_host_name'],
})
console.log(JSON.stringify({ rows, requests, bytes, size: file.byteLength }))
