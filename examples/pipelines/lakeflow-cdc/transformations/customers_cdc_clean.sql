-- A date that cannot be read is null, and a rule drops its row.
select
  id,
  firstname,
  lastname,
  email,
  address,
  operation,
  try_to_timestamp(operation_date, 'MM-dd-yyyy HH:mm:ss') as operation_date,
  rescued_data,
  _topic,
  _partition,
  _offset
from customers_cdc_bronze
