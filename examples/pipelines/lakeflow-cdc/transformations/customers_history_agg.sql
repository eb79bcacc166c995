-- How many addresses, mails and names a customer has had.
select
  id,
  size(collect_set(address)) as addresses,
  size(collect_set(email)) as emails,
  size(collect_set(struct(firstname, lastname))) as names
from customers_cdc_clean
where operation != 'DELETE'
group by id
